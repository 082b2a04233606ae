(* Gaussian noise on secret samples: one round's losses on a grid, and their convolution. *)

Require Import Reals ZArith Lra Lia.
From Coquelicot Require Import Coquelicot.
From DPAudit Require Import Laws Composition Normal Nodes Theorems Balls Losses.
Require Import List.
Import ListNotations.
Open Scope R_scope.

(* --- sampling --------------------------------------------------------------------------------- *)

(* Balle, Barthe, Gaboardi 2018, Theorem 8: a record is in the batch with probability q. *)
Theorem sampling_removed q mu X P Q e g : 0 < q < 1 -> 1 - q < exp e ->
  normal_profile mu (ln ((exp e - (1 - q)) / q)) g ->
  sampled Removed q (gdp mu) X P Q -> approx e (q * g) X P Q.
Proof.
  intros Hq He N (W & others & K & K' & HK & F) f Hf. destruct (F f Hf) as (T & Tm & -> & ->).
  pose proof (normal_profile_nonneg _ _ _ N).
  apply mean_affine; auto; [apply Rlt_le, exp_pos|nra|]. intro v.
  pose proof (HK v _ _ N f Hf) as S. rewrite exp_ln in S by (apply Rdiv_lt_0_compat; lra).
  apply (Rmult_le_compat_l q) in S; [|lra].
  replace (q * ((exp e - (1 - q)) / q * K v f + g)) with ((exp e - (1 - q)) * K v f + q * g) in S by (field; lra).
  lra.
Qed.

Theorem sampling_removed_low q M X P Q e : 0 < q < 1 -> exp e <= 1 - q ->
  sampled Removed q M X P Q -> approx e (1 - exp e) X P Q.
Proof.
  intros Hq He (W & others & K & K' & HK & F) f Hf. destruct (F f Hf) as (T & Tm & -> & ->).
  apply mean_affine; auto; [apply Rlt_le, exp_pos|lra|]. intro v.
  pose proof (mean_range X (K v) f Hf). pose proof (mean_range X (K' v) f Hf). nra.
Qed.

Theorem sampling_added q mu X P Q e g : 0 < q < 1 -> 0 < 1 - exp e * (1 - q) ->
  normal_profile mu (ln (exp e * q / (1 - exp e * (1 - q)))) g ->
  sampled Added q (gdp mu) X P Q -> approx e ((1 - exp e * (1 - q)) * g) X P Q.
Proof.
  intros Hq He N (W & others & K & K' & HK & F) f Hf. destruct (F f Hf) as (T & Tm & -> & ->).
  pose proof (normal_profile_nonneg _ _ _ N). pose proof (exp_pos e).
  apply mean_affine; auto; [lra|nra|]. intro v. pose proof (HK v _ _ N f Hf) as S.
  set (c := 1 - exp e * (1 - q)) in *. rewrite exp_ln in S by (apply Rdiv_lt_0_compat; nra).
  apply (Rmult_le_compat_l c) in S; [|lra].
  replace (c * (exp e * q / c * K' v f + g)) with (exp e * q * K' v f + c * g) in S by (field; lra).
  unfold c in S at 1. lra.
Qed.

Theorem sampling_added_high q M X P Q e : 0 < q < 1 -> 1 - exp e * (1 - q) <= 0 ->
  sampled Added q M X P Q -> approx e 0 X P Q.
Proof.
  intros Hq He (W & others & K & K' & HK & F) f Hf. destruct (F f Hf) as (T & Tm & -> & ->).
  apply mean_affine; auto; [apply Rlt_le, exp_pos|lra|]. intro v.
  pose proof (mean_range X (K v) f Hf). pose proof (mean_range X (K' v) f Hf). pose proof (exp_pos e).
  assert (0 <= (exp e * (1 - q) - 1) * K v f) by (apply Rmult_le_pos; lra).
  assert (0 <= exp e * q * K' v f) by (repeat apply Rmult_le_pos; lra). lra.
Qed.

Lemma sampled_le o q (M N : measure) X P Q : (forall P Q, M X P Q -> N X P Q) ->
  sampled o q M X P Q -> sampled o q N X P Q.
Proof.
  intros H. destruct o; intros (W & others & K & K' & HK & F); exists W, others, K, K';
    (split; [intro v; apply H, HK|exact F]).
Qed.

(* --- computed --------------------------------------------------------------------------------- *)

Section Computed.
Variable p : F.precision.
Variables (o : order) (bits last : Z) (terms : nat) (q mu w : R).
Variables (q_ball rest_ball mu_ball w_ball root_ball : I.type) (ends : cut) (lost : Z).

(* A bound of the sampled pair's profile, from x = e^epsilon. *)
Definition node_bound (x : I.type) : I.type :=
  match o with
  | Removed =>
      let r := I.sub p x rest_ball in
      if positive r then
        I.mul p q_ball (I.div p (profile_ball p ends mu_ball (I.ln p (I.div p r q_ball))) root_ball)
      else if at_most p x rest_ball then I.sub p (I.fromZ p 1) x else I.whole
  | Added =>
      let c := I.sub p (I.fromZ p 1) (I.mul p x rest_ball) in
      if positive c then
        I.mul p c (I.div p
          (profile_ball p ends mu_ball (I.ln p (I.div p (I.mul p x q_ball) c))) root_ball)
      else if at_most p c (I.fromZ p 0) then I.fromZ p 0 else I.whole
  end.

(* All nodes from l on: whether each is dominated, the counts together, and their other masses. *)
Fixpoint nodes_hold (l : Z) (zs : list Z) : bool * Z * I.type :=
  let x := I.exp p (I.mul p (I.fromZ p l) w_ball) in
  let needed := I.mul p (node_bound x) (I.fromZ p (2 ^ bits)) in
  match zs with
  | [] => (at_most p needed (I.fromZ p lost), 0%Z, I.fromZ p 0)
  | z :: r =>
      let '(good, m, other) := nodes_hold (l + 1) r in
      ((good && at_most p needed (I.sub p (I.fromZ p (lost + m)) (I.mul p x other)))%bool,
       (m + z)%Z, I.add p other (I.div p (I.fromZ p z) x))
  end.

(* The curve at e, from above. *)
Fixpoint curve_ball (e_ball : I.type) (l : Z) (zs : list Z) : I.type :=
  match zs with
  | [] => I.fromZ p 0
  | z :: r =>
      let v := I.sub p (I.fromZ p 1) (I.exp p (I.sub p e_ball (I.mul p (I.fromZ p l) w_ball))) in
      let rest := curve_ball e_ball (l + 1) r in
      if at_most p v (I.fromZ p 0) then rest else I.add p (I.mul p (I.fromZ p z) (I.abs v)) rest
  end.

Hypothesis Rate : within_ball q_ball q.
Hypothesis Rest : within_ball rest_ball (1 - q).
Hypothesis Mu : within_ball mu_ball mu.
Hypothesis Step : within_ball w_ball w.
Hypothesis Root : within_ball root_ball (sqrt (2 * PI)).
Hypothesis Ends : ends = cut_at p terms last.
Hypothesis Last : (0 < last)%Z.
Hypothesis Hq : 0 < q < 1.
Hypothesis Hmu : 0 < mu.
Hypothesis Hw : 0 < w.
Hypothesis Hb : (0 <= bits)%Z.

Lemma root_positive : 0 < sqrt (2 * PI).
Proof. apply sqrt_lt_R0. pose proof PI_RGT_0. lra. Qed.

Lemma profile_of e e_ball : within_ball e_ball e -> exists g,
  within_ball (I.div p (profile_ball p ends mu_ball e_ball) root_ball) g /\ normal_profile mu e g.
Proof.
  intro E. rewrite Ends. destruct (profile_correct p terms last mu_ball e_ball mu e Last Hmu Mu E) as (v & V & T).
  exists (v / sqrt (2 * PI)). split; [apply in_div; assumption|]. apply T. apply Req_le.
  pose proof root_positive. field. lra.
Qed.

Lemma node_correct X P Q e x_ball : within_ball x_ball (exp e) -> sampled o q (gdp mu) X P Q ->
  exists d, within_ball (node_bound x_ball) d /\ approx e d X P Q.
Proof.
  intros E S. assert (U : exists d, within_ball I.whole d /\ approx e d X P Q).
  { exists 1. split; [apply I.whole_correct|]. intros f Hf. pose proof (exp_pos e).
    pose proof (mean_range X P f Hf). pose proof (mean_range X Q f Hf). nra. }
  unfold node_bound. destruct o.
  - destruct (positive (I.sub p x_ball rest_ball)) eqn:A.
    + assert (R : within_ball (I.sub p x_ball rest_ball) (exp e - (1 - q))) by (apply in_sub; assumption).
      pose proof (positive_correct _ _ A R) as Pos.
      destruct (profile_of (ln ((exp e - (1 - q)) / q)) (I.ln p (I.div p (I.sub p x_ball rest_ball) q_ball)))
        as (g & G & N). { apply in_ln, in_div; assumption. }
      exists (q * g). split; [apply in_mul; assumption|]. apply (sampling_removed q mu); auto. lra.
    + destruct (at_most p x_ball rest_ball) eqn:B; [|exact U].
      exists (1 - exp e). split; [apply in_sub; [apply in_Z|exact E]|].
      apply (sampling_removed_low q (gdp mu)); auto. exact (at_most_correct _ _ _ _ _ B E Rest).
  - set (c_ball := I.sub p (I.fromZ p 1) (I.mul p x_ball rest_ball)).
    assert (C : within_ball c_ball (1 - exp e * (1 - q))).
    { apply in_sub; [apply in_Z|]. apply in_mul; assumption. }
    destruct (positive c_ball) eqn:A.
    + pose proof (positive_correct _ _ A C) as Pos.
      destruct (profile_of (ln (exp e * q / (1 - exp e * (1 - q))))
        (I.ln p (I.div p (I.mul p x_ball q_ball) c_ball))) as (g & G & N).
      { apply in_ln, in_div; [apply in_mul; assumption|exact C]. }
      exists ((1 - exp e * (1 - q)) * g). split; [apply in_mul; assumption|].
      apply (sampling_added q mu); auto.
    + destruct (at_most p c_ball (I.fromZ p 0)) eqn:B; [|exact U].
      exists 0. split; [apply in_Z|]. apply (sampling_added_high q (gdp mu)); auto.
      exact (at_most_correct _ _ _ _ _ B C (in_Z p 0)).
Qed.

Let D := unit_of bits.

Lemma nodes_correct X P Q zs : sampled o q (gdp mu) X P Q -> forall l good m other,
  nodes_hold l zs = (good, m, other) ->
  m = sum_of zs /\ within_ball other (other_of w l (scaled D zs) * D) /\
  (good = true -> forall k, (k <= length zs)%nat -> approx (IZR (l + Z.of_nat k) * w)
    (IZR lost / D + above w l (scaled D zs) (IZR (l + Z.of_nat k) * w)) X P Q).
Proof.
  pose proof (unit_positive bits Hb) as U. fold D in U. intro S.
  assert (B : forall l v ball, within_ball ball v ->
    at_most p (I.mul p (node_bound (I.exp p (I.mul p (I.fromZ p l) w_ball))) (I.fromZ p (2 ^ bits))) ball = true ->
    approx (IZR l * w) (v / D) X P Q).
  { intros l v b V A. destruct (node_correct X P Q (IZR l * w) (I.exp p (I.mul p (I.fromZ p l) w_ball)))
      as (d & Hd & G); auto. { apply in_exp, in_mul; [apply in_Z|exact Step]. }
    revert G. apply approx_weaken; [lra|]. apply (Rmult_le_reg_r D); [exact U|].
    replace (v / D * D) with v by (field; lra).
    refine (at_most_correct p _ _ _ _ A _ V). apply in_mul; [exact Hd|apply in_Z]. }
  induction zs as [|z zs IH]; intros l good m other E; cbn [nodes_hold] in E.
  - apply pair_equal_spec in E as [E E3]. apply pair_equal_spec in E as [E1 E2]. rewrite <- E1, <- E2, <- E3. clear E1 E2 E3. split; [reflexivity|]. split.
    { change (other_of w l (scaled D [])) with 0. rewrite Rmult_0_l. apply in_Z. }
    intros A k Hk. assert (k = 0)%nat as -> by (simpl in Hk; lia). rewrite Z.add_0_r.
    change (above w l (scaled D []) (IZR l * w)) with 0. rewrite Rplus_0_r.
    apply (B l _ _ (in_Z p lost) A).
  - destruct (nodes_hold (l + 1) zs) as [[good' m'] other'] eqn:T.
    destruct (IH _ _ _ _ T) as (Em & Ho & H). apply pair_equal_spec in E as [E E3].
    apply pair_equal_spec in E as [E1 E2]. subst m'.
    rewrite <- E1, <- E2, <- E3. clear E1 E2 E3.
    split; [simpl; lia|]. set (x := I.exp p (I.mul p (I.fromZ p l) w_ball)) in *.
    assert (Hx : within_ball x (exp (IZR l * w))) by (apply in_exp, in_mul; [apply in_Z|exact Step]).
    split.
    { cbn [scaled map other_of]. change (map (fun z => IZR z / D) zs) with (scaled D zs).
      replace ((IZR z / D * exp (- (IZR l * w)) + other_of w (l + 1) (scaled D zs)) * D)
        with (other_of w (l + 1) (scaled D zs) * D + IZR z / exp (IZR l * w))
        by (rewrite exp_Ropp; pose proof (exp_pos (IZR l * w)); field; lra).
      apply in_add; [exact Ho|]. apply in_div; [apply in_Z|exact Hx]. }
    intros A k Hk. apply andb_prop in A as [A1 A2]. cbn [scaled map above].
    change (map (fun z => IZR z / D) zs) with (scaled D zs).
    rewrite (gain_zero w l) by (pose proof (IZR_le l (l + Z.of_nat k) ltac:(lia)); nra).
    rewrite Rmult_0_r, Rplus_0_l. destruct k as [|k].
    + rewrite Z.add_0_r. rewrite above_full by (auto; apply loss_rises, Hw). rewrite scaled_mass.
      replace (IZR lost / D + (IZR (sum_of zs) / D - exp (IZR l * w) * other_of w (l + 1) (scaled D zs)))
        with ((IZR (lost + sum_of zs) - exp (IZR l * w) * (other_of w (l + 1) (scaled D zs) * D)) / D)
        by (rewrite plus_IZR; field; lra).
      refine (B l _ _ _ A2). apply in_sub; [apply in_Z|]. apply in_mul; assumption.
    + replace (l + Z.of_nat (Datatypes.S k))%Z with (l + 1 + Z.of_nat k)%Z by lia.
      apply H; [exact A1|]. simpl in Hk. lia.
Qed.

Lemma curve_correct e e_ball zs : within_ball e_ball e -> nonneg zs -> forall l, exists v,
  within_ball (curve_ball e_ball l zs) v /\ above w l (scaled D zs) e * D <= v.
Proof.
  pose proof (unit_positive bits Hb) as U. fold D in U. intros E H.
  induction H as [|z zs Hz _ IH]; intro l; cbn [curve_ball].
  - exists 0. split; [apply in_Z|]. change (above w l (scaled D []) e) with 0. lra.
  - destruct (IH (l + 1)%Z) as (r & R & Hr). apply IZR_le in Hz.
    set (v_ball := I.sub p (I.fromZ p 1) _).
    assert (V : within_ball v_ball (1 - exp (e - IZR l * w))).
    { apply in_sub; [apply in_Z|]. apply in_exp, in_sub; [exact E|]. apply in_mul; [apply in_Z|exact Step]. }
    cbn [scaled map above]. change (map (fun z => IZR z / D) zs) with (scaled D zs).
    replace ((IZR z / D * gain w l e + above w (l + 1) (scaled D zs) e) * D)
      with (IZR z * gain w l e + above w (l + 1) (scaled D zs) e * D) by (field; lra).
    destruct (at_most p v_ball (I.fromZ p 0)) eqn:A.
    + exists r. split; [exact R|]. pose proof (at_most_correct _ _ _ _ _ A V (in_Z p 0)).
      unfold gain. rewrite Rmax_left by lra. lra.
    + eexists. split. apply in_add; [|exact R]. apply in_mul; [apply in_Z|apply in_abs, V].
      assert (gain w l e <= Rabs (1 - exp (e - IZR l * w))).
      { unfold gain. apply Rmax_lub; [apply Rabs_pos|apply Rle_abs]. } nra.
Qed.

End Computed.

(* One round's losses, in units of 2^-unit at multiples of the step; those of all rounds end at most. *)
Definition sampled_below (bits : Z) (terms : nat) (last : Z) (unit most : Z) (o : order)
  (rate squared step : expression) (times : Z) (e d : expression) (low : Z) (zs : list Z) (lost : Z) : bool :=
  let p := F.PtoP (Z.to_pos bits) in
  let q := ball_of p rate in let rest := ball_of p (Difference (Whole 1) rate) in
  let w := ball_of p step in let root := ball_of p (Root (Product (Whole 2) Circle)) in
  let '(good, total, _) := nodes_hold p o unit q rest (ball_of p (Root squared)) w root
    (cut_at p terms last) lost low zs in
  let all := repeated_losses unit most (Grid_losses low zs lost) (Z.to_nat times) in
  let curve := I.add p (I.fromZ p (lost_of all)) (curve_ball p w (ball_of p e) (lowest all) (counts all)) in
  (good && forallb (Z.leb 0) zs && (0 <=? lost)%Z && (0 <? last)%Z && (0 <=? unit)%Z &&
   (2 ^ unit <=? lost + total)%Z && positive q && positive rest && positive w &&
   positive (ball_of p squared) && at_most p curve (I.mul p (ball_of p d) (I.fromZ p (2 ^ unit))))%bool.

Theorem sampled_checked bits terms last unit most o rate squared step times e d low zs lost child :
  sampled_below bits terms last unit most o rate squared step times e d low zs lost = true ->
  private (of_gdp (real_of squared) 0) child ->
  private (approx (real_of e) (real_of d))
    (Repeat (Z.to_nat times) (fun _ => PoissonSampled o (real_of rate) child)).
Proof.
  unfold sampled_below. generalize (F.PtoP (Z.to_pos bits)). intros p H Child. cbv zeta in H.
  destruct (nodes_hold _ _ _ _ _ _ _ _ _ _ _ _) as [[good total] other] eqn:N.
  set (all := repeated_losses unit most (Grid_losses low zs lost) (Z.to_nat times)) in H.
  repeat match type of H with (_ && _)%bool = true => let K := fresh "K" in apply andb_prop in H as [H K] end.
  rename H into Good.
  apply Z.leb_le in K7, K5, K4. apply Z.ltb_lt in K6.
  pose proof (in_ball p rate) as Bq. pose proof (in_ball p (Difference (Whole 1) rate)) as Br.
  pose proof (in_ball p step) as Bw. pose proof (in_ball p squared) as Bs.
  apply (positive_correct _ _ K3) in Bq as Pq. apply (positive_correct _ _ K2) in Br as Pr.
  apply (positive_correct _ _ K1) in Bw as Pw. apply (positive_correct _ _ K0) in Bs as Ps.
  cbn [real_of] in Br, Pr.
  assert (Q1 : 0 < real_of rate < 1) by lra.
  assert (NN : nonneg zs).
  { apply List.Forall_forall. intros z Hz. rewrite forallb_forall in K8. apply Z.leb_le, K8, Hz. }
  assert (U : 0 < unit_of unit) by (apply unit_positive; assumption).
  assert (M : 0 < sqrt (real_of squared)) by (apply sqrt_lt_R0; exact Ps).
  assert (Nodes : forall X P Q, sampled o (real_of rate) (gdp (sqrt (real_of squared))) X P Q ->
    total = sum_of zs /\ forall k, (k <= length zs)%nat ->
      approx (IZR (low + Z.of_nat k) * real_of step) (IZR lost / unit_of unit +
        above (real_of step) low (scaled (unit_of unit) zs) (IZR (low + Z.of_nat k) * real_of step)) X P Q).
  { intros X P Q S.
    pose proof (nodes_correct p o unit last terms (real_of rate) (sqrt (real_of squared)) (real_of step)
      _ _ _ _ _ _ lost Bq Br (in_ball p (Root squared)) Bw (in_ball p (Root (Product (Whole 2) Circle)))
      eq_refl K6 Q1 M Pw K5 X P Q zs S low good total other N) as (Em & _ & A).
    split; [exact Em|]. apply A. exact Good. }
  set (B := Grid_losses low zs lost) in *.
  assert (T : total = sum_of zs).
  { clear -N. revert low good total other N. induction zs as [|z zs IH]; intros low good total other N; cbn [nodes_hold] in N.
    - apply pair_equal_spec in N as [N _]. apply pair_equal_spec in N as [_ N]. symmetry. exact N.
    - destruct (nodes_hold p o unit _ _ _ _ _ _ lost (low + 1) zs) as [[g m] r] eqn:E.
      apply pair_equal_spec in N as [N _]. apply pair_equal_spec in N as [_ N].
      rewrite <- N, (IH _ _ _ _ E). simpl. lia. }
  assert (WB : whole_losses (losses_of unit B)).
  { split; [apply scaled_positive; assumption|]. split.
    - apply Rle_mult_inv_pos; [apply IZR_le; assumption|exact U].
    - cbn [losses_of infinite masses B lost_of counts]. rewrite scaled_mass.
      apply (Rmult_le_reg_r (unit_of unit)); [exact U|].
      replace ((IZR lost / unit_of unit + IZR (sum_of zs) / unit_of unit) * unit_of unit)
        with (IZR lost + IZR (sum_of zs)) by (field; lra).
      rewrite Rmult_1_l, <- plus_IZR. apply IZR_le. rewrite <- T. exact K4. }
  assert (SB : sound_losses B) by (split; assumption).
  assert (Body : private (dominated (real_of step) (losses_of unit B)) (PoissonSampled o (real_of rate) child)).
  { intros X P Q R.
    assert (S : sampled o (real_of rate) (gdp (sqrt (real_of squared))) X P Q).
    { revert R. apply sampled_le. intros P0 Q0 R. apply gdp_of_square; [exact Ps|]. apply Child, R. }
    apply by_nodes; [exact Pw|exact WB|]. intros k Hk.
    cbn [losses_of first masses B lowest counts] in *. unfold scaled in Hk. rewrite map_length in Hk.
    exact (proj2 (Nodes X P Q S) k Hk). }
  pose proof (repeated_dominated unit (real_of step) K5 Pw most B _ (Z.to_nat times) SB WB Body) as Rep.
  fold all in Rep. intros X P Q R. specialize (Rep X P Q R (real_of e)).
  revert Rep. apply approx_weaken; [lra|].
  assert (SA : nonneg (counts all)).
  { assert (A : forall n, sound_losses (repeated_losses unit most B n)).
    { induction n as [|n IH]; [|apply then_sound; assumption].
      split; simpl; [|lia]. constructor; [apply Z.pow_nonneg; lia|constructor]. }
    exact (proj1 (A (Z.to_nat times))). }
  destruct (curve_correct p unit (real_of step) (ball_of p step) Bw K5 (real_of e) (ball_of p e) (counts all)
    (in_ball p e) SA (lowest all)) as (v & V & Hv).
  assert (L : IZR (lost_of all) + v <= real_of d * IZR (2 ^ unit)).
  { refine (at_most_correct p _ _ _ _ K _ _). apply in_add; [apply in_Z|exact V].
    apply in_mul; [apply in_ball|apply in_Z]. }
  unfold curve. cbn [losses_of first masses infinite].
  apply (Rmult_le_reg_r (unit_of unit)); [exact U|].
  replace ((IZR (lost_of all) / unit_of unit
    + above (real_of step) (lowest all) (scaled (unit_of unit) (counts all)) (real_of e)) * unit_of unit)
    with (IZR (lost_of all)
    + above (real_of step) (lowest all) (scaled (unit_of unit) (counts all)) (real_of e) * unit_of unit)
    by (field; lra). unfold unit_of in *. lra.
Qed.

Ltac sampled bits terms last unit most step low zs lost child :=
  match goal with
  | |- private (approx ?e ?d) ?node =>
    match eval hnf in node with
    | Repeat (Z.to_nat ?times) (fun _ => ?round) =>
      match eval hnf in round with
      | PoissonSampled ?o ?rate _ =>
        match type of child with private (of_gdp ?s 0) _ =>
          let x := written e in let y := written d in let q := written rate in
          let t := written s in let w := written step in
          refine (sampled_checked bits terms last unit most o q t w times x y low zs lost _ _ child);
          vm_cast_no_check (eq_refl true)
        end
      end
    end
  end.
