(* Releases behind a secret threshold: one number for all pairs of scores, from the Gaussian's. *)

Require Import Reals ZArith Lra Lia List.
From Coquelicot Require Import Coquelicot.
From DPAudit Require Import Laws Composition Normal Nodes Theorems Balls.
Open Scope R_scope.

Section Scores.
Variables (epsilon : R) (kappa : nat) (noise : R) (far : distance).
Let high := highest epsilon kappa.
Let all := high (2 * kappa + 1).

Lemma high_positive n : 0 < high (S n).
Proof.
  assert (N : forall m, 0 <= high m).
  { induction m as [|m IH]; [apply Rle_refl|]. unfold high in *. cbn [highest].
    pose proof (exp_pos (- epsilon * IZR (Z.abs (Z.of_nat (2 * kappa - m) - Z.of_nat kappa)))).
    unfold weight. lra. }
  unfold high in *. cbn [highest]. specialize (N n).
  pose proof (exp_pos (- epsilon * IZR (Z.abs (Z.of_nat (2 * kappa - n) - Z.of_nat kappa)))).
  unfold weight. lra.
Qed.

(* What one bound needs of scores with n and m thresholds at least as high, times all weights. *)
Definition fits (e d : R) (n m : nat) (release : R) : Prop :=
  Rmax 0 ((all - high n) - exp e * (all - high m)) + release <= all * d.

Definition bounded (e d : R) (n m : nat) : Prop :=
  match n, m with
  | O, _ => fits e d n m 0
  | S _, O => fits e d n m (high n)
  | S _, S _ => exists g, fits e d n m (high n * g) /\
      normal_profile (units far (2 * kappa + 1 - n) (2 * kappa + 1 - m) / noise)
        (e + ln (high m / high n)) g
  end.

Theorem scores_bounded e d : 0 < noise ->
  (forall n m, (n <= 2 * kappa + 1)%nat -> (m <= 2 * kappa + 1)%nat -> (n <= S m)%nat ->
    (m <= S n)%nat -> bounded e d n m) ->
  private (approx e d) (StableRelease epsilon kappa noise far).
Proof.
  intros Hn H X P Q (s & t & b & L & K & Hs & Ht & G & F) f Hf.
  destruct (F f Hf) as [-> ->]. unfold passes. fold high. fold all.
  set (n := (2 * kappa + 1 - s)%nat). set (m := (2 * kappa + 1 - t)%nat).
  assert (B : bounded e d n m) by (apply H; unfold n, m; lia).
  assert (A : 0 < all) by (unfold all; rewrite Nat.add_1_r; apply high_positive).
  pose proof (test_range X f Hf b) as Rb. pose proof (mean_range X L f Hf) as RL.
  pose proof (mean_range X K f Hf) as RK. pose proof (exp_pos e) as E.
  apply (Rmult_le_reg_l all); [exact A|].
  replace (all * ((1 - high n / all) * f b + high n / all * L f))
    with ((all - high n) * f b + high n * L f) by (field; lra).
  replace (all * (exp e * ((1 - high m / all) * f b + high m / all * K f) + d))
    with (exp e * ((all - high m) * f b + high m * K f) + all * d) by (field; lra).
  assert (C : forall r, fits e d n m r -> high n * L f <= exp e * (high m * K f) + r ->
    (all - high n) * f b + high n * L f <= exp e * ((all - high m) * f b + high m * K f) + all * d).
  { intros r Hr Hl. unfold fits in Hr. pose proof (Rmax_l 0 (all - high n - exp e * (all - high m))).
    pose proof (Rmax_r 0 (all - high n - exp e * (all - high m))). nra. }
  assert (M : 0 <= high m).
  { destruct m; [apply Rle_refl|]. apply Rlt_le, high_positive. }
  destruct n as [|i] eqn:En.
  { apply (C 0); [exact B|]. change (high 0) with 0. rewrite Rmult_0_l, Rplus_0_r.
    repeat apply Rmult_le_pos; lra. }
  destruct m as [|j] eqn:Em.
  { apply (C (high (S i))); [exact B|]. change (high 0) with 0. rewrite Rmult_0_l, Rmult_0_r.
    pose proof (Rmult_le_compat_l (high (S i)) (L f) 1 (Rlt_le _ _ (high_positive i))). lra. }
  destruct B as (g & B & N). apply (C _ B).
  pose proof (high_positive i) as Hi. pose proof (high_positive j) as Hj.
  assert (U : 0 < units far s t).
  { destruct far; simpl; [apply IZR_lt; lia|lra]. }
  assert (Pos : 0 < noise / units far s t) by (apply Rdiv_lt_0_compat; assumption).
  replace (2 * kappa + 1 - S i)%nat with s in N by (unfold n in En; lia).
  replace (2 * kappa + 1 - S j)%nat with t in N by (unfold m in Em; lia).
  replace (units far s t / noise) with (1 / (noise / units far s t)) in N by (field; lra).
  pose proof (gaussian_is_gdp _ Pos X L K G _ _ N f Hf) as T.
  rewrite exp_plus, exp_ln in T by (apply Rdiv_lt_0_compat; assumption).
  apply (Rmult_le_compat_l (high (S i))) in T; [|lra].
  replace (high (S i) * (exp e * (high (S j) / high (S i)) * K f + g))
    with (exp e * (high (S j) * K f) + high (S i) * g) in T by (field; lra). exact T.
Qed.

End Scores.

(* --- computed --------------------------------------------------------------------------------- *)

Section Computed.
Variable p : F.precision.
Variables (kappa : nat) (far : distance) (epsilon noise e d : R) (terms : nat) (last : Z).

(* What all pairs share, computed once: the sum of all weights and delta times it, the square root of
   2 pi, and the ends of the normal integral. *)
Record common : Type := Common {
  epsilon_of : I.type; noise_of : I.type; e_of : I.type; exp_of : I.type;
  whole : I.type; most : I.type; root : I.type; ends : cut
}.
Variable c : common.

Definition units_ball (s t : nat) : I.type :=
  match far with Path => I.fromZ p (Z.of_nat s + Z.of_nat t + 2) | Diameter => I.fromZ p 2 end.

Definition weight_ball (r : nat) : I.type :=
  I.exp p (I.mul p (I.neg (epsilon_of c)) (I.fromZ p (Z.abs (Z.of_nat r - Z.of_nat kappa)))).

Fixpoint highest_ball (n : nat) : I.type :=
  match n with
  | O => I.fromZ p 0
  | S m => I.add p (highest_ball m) (weight_ball (2 * kappa - m))
  end.

Definition pair_bounded (n m : nat) (a b : I.type) : bool :=
  let gap := I.sub p (I.sub p (whole c) a) (I.mul p (exp_of c) (I.sub p (whole c) b)) in
  let bottom := if at_most p gap (I.fromZ p 0) then I.fromZ p 0 else I.abs gap in
  let release :=
    match n, m with
    | O, _ => I.fromZ p 0
    | S _, O => a
    | S _, S _ =>
        let mu := I.div p (units_ball (2 * kappa + 1 - n) (2 * kappa + 1 - m)) (noise_of c) in
        let loss := I.add p (e_of c) (I.ln p (I.div p b a)) in
        I.div p (I.mul p a (profile_ball p (ends c) mu loss)) (root c)
    end in
  at_most p (I.add p bottom release) (most c).

Fixpoint pairs_bounded (left n : nat) (a : I.type) : bool :=
  (pair_bounded n n a a &&
   match left with
   | O => true
   | S fewer =>
       let b := I.add p a (weight_ball (2 * kappa - n)) in
       pair_bounded n (S n) a b && pair_bounded (S n) n b a && pairs_bounded fewer (S n) b
   end)%bool.

Hypothesis Epsilon : within_ball (epsilon_of c) epsilon.

Lemma in_weight r : within_ball (weight_ball r) (weight epsilon kappa r).
Proof. apply in_exp, in_mul; [apply in_neg, Epsilon|apply in_Z]. Qed.

Lemma in_highest n : within_ball (highest_ball n) (highest epsilon kappa n).
Proof. induction n as [|n IH]; [apply in_Z|]. apply in_add; [exact IH|]. apply in_weight. Qed.

Let all := highest epsilon kappa (2 * kappa + 1).
Hypothesis Noise : within_ball (noise_of c) noise.
Hypothesis Loss : within_ball (e_of c) e.
Hypothesis Grown : within_ball (exp_of c) (exp e).
Hypothesis Whole : within_ball (whole c) all.
Hypothesis Most : within_ball (most c) (all * d).
Hypothesis Root : within_ball (root c) (sqrt (2 * PI)).
Hypothesis Ends : ends c = cut_at p terms last.
Hypothesis Last : (0 < last)%Z.
Hypothesis Positive : 0 < noise.

Lemma pair_correct n m a b :
  within_ball a (highest epsilon kappa n) -> within_ball b (highest epsilon kappa m) ->
  pair_bounded n m a b = true -> bounded epsilon kappa noise far e d n m.
Proof.
  intros A B H. unfold pair_bounded in H.
  set (gap := I.sub p (I.sub p (whole c) a) _) in H.
  set (bottom := if at_most p gap _ then _ else _) in H.
  set (missed := all - highest epsilon kappa n - exp e * (all - highest epsilon kappa m)).
  assert (G : within_ball gap missed) by (repeat (apply in_sub || apply in_mul); assumption).
  assert (Bot : exists v, within_ball bottom v /\ Rmax 0 missed <= v).
  { unfold bottom. destruct (at_most p gap (I.fromZ p 0)) eqn:N.
    - exists 0. split; [apply in_Z|]. pose proof (at_most_correct _ _ _ _ _ N G (in_Z p 0)).
      apply Rmax_lub; lra.
    - eexists. split. apply in_abs, G. apply Rmax_lub; [apply Rabs_pos|apply Rle_abs]. }
  destruct Bot as (v & V & Hv). clearbody bottom.
  assert (S2 : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; pose proof PI_RGT_0; lra).
  destruct n as [|n]; [|destruct m as [|m]].
  - unfold bounded, fits. eapply Rle_trans; [apply Rplus_le_compat_r, Hv|].
    refine (at_most_correct _ _ _ _ _ H _ Most). apply in_add; [exact V|apply in_Z].
  - unfold bounded, fits. eapply Rle_trans; [apply Rplus_le_compat_r, Hv|].
    refine (at_most_correct _ _ _ _ _ H _ Most). apply in_add; [exact V|exact A].
  - pose proof (high_positive epsilon kappa n) as Pn. rewrite Ends in H.
    set (mu := units far (2 * kappa + 1 - S n) (2 * kappa + 1 - S m) / noise).
    set (loss := e + ln (highest epsilon kappa (S m) / highest epsilon kappa (S n))).
    destruct (profile_correct p terms last
      (I.div p (units_ball (2 * kappa + 1 - S n) (2 * kappa + 1 - S m)) (noise_of c))
      (I.add p (e_of c) (I.ln p (I.div p b a))) mu loss Last) as (g & Vg & T).
    { apply Rdiv_lt_0_compat; [|exact Positive]. unfold units. destruct far; [apply IZR_lt; lia|lra]. }
    { apply in_div; [|exact Noise]. unfold units_ball, units. destruct far; apply in_Z. }
    { apply in_add; [exact Loss|]. apply in_ln, in_div; assumption. }
    exists (g / sqrt (2 * PI)). split.
    + unfold fits. eapply Rle_trans; [apply Rplus_le_compat_r, Hv|].
      replace (highest epsilon kappa (S n) * (g / sqrt (2 * PI)))
        with (highest epsilon kappa (S n) * g / sqrt (2 * PI)) by (field; lra).
      refine (at_most_correct _ _ _ _ _ H _ Most). apply in_add; [exact V|].
      apply in_div; [apply in_mul; assumption|exact Root].
    + apply T. apply Req_le. field. lra.
Qed.

Lemma pairs_correct left n a : pairs_bounded left n a = true ->
  within_ball a (highest epsilon kappa n) -> forall i j, (n <= i <= n + left)%nat ->
  (n <= j <= n + left)%nat -> (i <= S j)%nat -> (j <= S i)%nat ->
  bounded epsilon kappa noise far e d i j.
Proof.
  revert n a. induction left as [|left IH]; intros n a H A i j Hi Hj Hij Hji; cbn [pairs_bounded] in H.
  - apply andb_prop in H as [H _]. assert (i = n) by lia. assert (j = n) by lia. subst.
    exact (pair_correct n n a a A A H).
  - apply andb_prop in H as [H0 H]. apply andb_prop in H as [H H3]. apply andb_prop in H as [H1 H2].
    assert (B : within_ball (I.add p a (weight_ball (2 * kappa - n))) (highest epsilon kappa (S n)))
      by (apply in_add; [exact A|apply in_weight]).
    destruct (Nat.eq_dec i n) as [->|Ni], (Nat.eq_dec j n) as [->|Nj].
    + exact (pair_correct _ _ _ _ A A H0).
    + assert (j = S n) by lia. subst. exact (pair_correct _ _ _ _ A B H1).
    + assert (i = S n) by lia. subst. exact (pair_correct _ _ _ _ B A H2).
    + apply (IH _ _ H3 B); lia.
Qed.

End Computed.

(* All but the sum of weights, which takes the others; then with it. *)
Definition shared (p : F.precision) (terms : nat) (last : Z) (epsilon noise e : expression) : common :=
  Common (ball_of p epsilon) (ball_of p noise) (ball_of p e) (ball_of p (Exponential e))
    (I.fromZ p 0) (I.fromZ p 0) (ball_of p (Root (Product (Whole 2) Circle))) (cut_at p terms last).

Definition summed (p : F.precision) (kappa : nat) (d : expression) (c : common) : common :=
  let total := highest_ball p kappa c (2 * kappa + 1) in
  Common (epsilon_of c) (noise_of c) (e_of c) (exp_of c) total (I.mul p total (ball_of p d))
    (root c) (ends c).

Definition stable_below (bits : Z) (terms : nat) (last : Z) (kappa : nat) (far : distance)
  (epsilon noise e d : expression) : bool :=
  let p := F.PtoP (Z.to_pos bits) in
  let c := summed p kappa d (shared p terms last epsilon noise e) in
  ((0 <? last)%Z && positive (noise_of c) &&
    pairs_bounded p kappa far c (2 * kappa + 1) 0 (I.fromZ p 0))%bool.

Theorem stable_checked bits terms last kappa far epsilon noise e d :
  stable_below bits terms last kappa far epsilon noise e d = true ->
  private (approx (real_of e) (real_of d)) (StableRelease (real_of epsilon) kappa (real_of noise) far).
Proof.
  unfold stable_below. generalize (F.PtoP (Z.to_pos bits)). intros p H.
  set (c := summed p kappa d (shared p terms last epsilon noise e)) in H. cbv zeta in H.
  apply andb_prop in H as [H C]. apply andb_prop in H as [K N]. apply Z.ltb_lt in K.
  pose proof (in_ball p noise) as Noise.
  apply positive_correct with (x := real_of noise) in N; [|exact Noise].
  assert (T : within_ball (whole c) (highest (real_of epsilon) kappa (2 * kappa + 1))).
  { refine (in_highest p kappa (real_of epsilon) (shared p terms last epsilon noise e) _ _).
    apply in_ball. }
  apply scores_bounded; [exact N|]. intros n m Hn Hm Hnm Hmn.
  refine (pairs_correct p kappa far (real_of epsilon) (real_of noise) (real_of e) (real_of d) terms
    last c (in_ball p epsilon) Noise (in_ball p e) (in_ball p (Exponential e)) T _
    (in_ball p (Root (Product (Whole 2) Circle))) eq_refl K N _ _ _ C _ n m _ _ Hnm Hmn).
  - apply in_mul; [exact T|apply in_ball].
  - apply in_Z.
  - lia.
  - lia.
Qed.

Ltac stable bits terms last :=
  match goal with
  | |- private (approx ?e ?d) ?node =>
    match eval hnf in node with
    | StableRelease ?epsilon ?kappa ?noise ?far =>
      let x := written e in let y := written d in
      let a := written epsilon in let z := written noise in
      refine (stable_checked bits terms last kappa far a z x y _); vm_cast_no_check (eq_refl true)
    end
  end.
