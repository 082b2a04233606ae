(* The privacy profile of Gaussian noise: one integral over an interval and its tail, and the normal
   integral by a series with a bound of its remainder. *)

Require Import Reals ZArith Lra Lia.
From Coquelicot Require Import Coquelicot.
From DPAudit Require Import Laws.
Open Scope R_scope.

Lemma continuous_normal_loss mu e t : continuous (normal_loss mu e) t.
Proof.
  unfold normal_loss. apply (ex_derive_continuous (fun t => exp (- (t * t) / 2) * (1 - exp (e - mu * t - mu * mu / 2)))).
  auto_derive. exact I.
Qed.

Lemma ex_RInt_normal_loss mu e a b : ex_RInt (normal_loss mu e) a b.
Proof. apply (ex_RInt_continuous (normal_loss mu e)). intros. apply continuous_normal_loss. Qed.

Lemma normal_loss_nonneg mu e t : 0 < mu -> e / mu - mu / 2 <= t -> 0 <= normal_loss mu e t.
Proof.
  intros Hm H. unfold normal_loss. apply Rmult_le_pos. apply Rlt_le, exp_pos.
  assert (exp (e - mu * t - mu * mu / 2) <= exp 0).
  { apply exp_le. apply (Rmult_le_compat_l mu) in H; [|lra]. field_simplify in H; [|lra]. nra. }
  rewrite exp_0 in *. lra.
Qed.

Definition bell (t : R) : R := exp (- (t * t) / 2).

Lemma continuous_bell t : continuous bell t.
Proof. unfold bell. apply (ex_derive_continuous (fun t => exp (- (t * t) / 2))). auto_derive. exact I. Qed.

Lemma ex_RInt_bell a b : ex_RInt bell a b.
Proof. apply (ex_RInt_continuous bell). intros. apply continuous_bell. Qed.

Lemma bell_positive t : 0 < bell t.
Proof. apply exp_pos. Qed.

(* exp(-t^2/2) <= (t / k) exp(-t^2/2) from k on, whose integral is known. *)
Lemma bell_tail k b : 0 < k -> k <= b -> RInt bell k b <= bell k / k.
Proof.
  intros Hk Hb. set (g := fun t => t / k * bell t).
  assert (D : is_RInt g k b (- bell b / k - (- bell k / k))).
  { apply (is_RInt_derive (fun t => - bell t / k) g).
    - intros x _. unfold g, bell. auto_derive. exact I.
      change (- (x * x) * / 2) with (- (x * x) / 2). field. lra.
    - intros x _. unfold g, bell.
      apply (ex_derive_continuous (fun t => t / k * exp (- (t * t) / 2))). auto_derive. exact I. }
  assert (L : RInt bell k b <= RInt g k b).
  { apply RInt_le; auto. apply ex_RInt_bell. eexists. exact D.
    intros t [H1 H2]. unfold g. pose proof (bell_positive t).
    assert (1 <= t / k). { apply (Rmult_le_reg_r k); [lra|]. field_simplify; lra. } nra. }
  rewrite (is_RInt_unique _ _ _ _ D) in L.
  assert (0 < bell b / k) by (apply Rdiv_lt_0_compat; [apply bell_positive|lra]). lra.
Qed.

Lemma tail mu e k b : 0 < k -> k <= b -> RInt (normal_loss mu e) k b <= bell k / k.
Proof.
  intros Hk Hb. eapply Rle_trans; [|apply (bell_tail k b Hk Hb)]. apply RInt_le; auto.
  apply ex_RInt_normal_loss. apply ex_RInt_bell. intros t _. unfold normal_loss. fold (bell t).
  pose proof (bell_positive t). pose proof (exp_pos (e - mu * t - mu * mu / 2)). nra.
Qed.

Theorem normal_profile_by_integral mu e d k : 0 < mu -> 0 < k -> e / mu - mu / 2 <= k ->
  (RInt (normal_loss mu e) (e / mu - mu / 2) k + bell k / k) / sqrt (2 * PI) <= d ->
  normal_profile mu e d.
Proof.
  intros Hm Hk Hak H b Hb. set (a := e / mu - mu / 2) in *.
  assert (S : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; pose proof PI_RGT_0; lra).
  eapply Rle_trans; [|exact H]. apply Rmult_le_compat_r. apply Rlt_le, Rinv_0_lt_compat, S.
  assert (E : 0 < bell k / k) by (apply Rdiv_lt_0_compat; [apply exp_pos|lra]).
  destruct (Rle_lt_dec b k) as [Hbk|Hkb].
  - rewrite <- (RInt_Chasles (normal_loss mu e) a b k) by apply ex_RInt_normal_loss.
    assert (0 <= RInt (normal_loss mu e) b k).
    { apply RInt_ge_0; auto. apply ex_RInt_normal_loss. intros t [H1 _].
      apply normal_loss_nonneg; unfold a in *; lra. }
    unfold plus; simpl; lra.
  - rewrite <- (RInt_Chasles (normal_loss mu e) a k b) by apply ex_RInt_normal_loss.
    pose proof (tail mu e k b Hk (Rlt_le _ _ Hkb)). unfold plus; simpl; lra.
Qed.

(* --- the normal integral -------------------------------------------------------------------- *)

Definition mass (z : R) : R := RInt bell 0 z.

(* t^(2 k + 1) / (1 3 5 ... (2 k + 1)), and the sum of the first n. *)
Fixpoint term (t : R) (k : nat) : R :=
  match k with O => t | S j => term t j * (t * t) / IZR (2 * Z.of_nat j + 3) end.

Fixpoint series (t : R) (n : nat) : R :=
  match n with O => 0 | S m => series t m + term t m end.

(* The derivative of a term. *)
Definition slope (t : R) (k : nat) : R := match k with O => 1 | S j => t * term t j end.

Lemma odd_positive j : 0 < IZR (2 * Z.of_nat j + 3).
Proof. apply IZR_lt. lia. Qed.

Lemma term_derive t k : is_derive (fun t => term t k) t (slope t k).
Proof.
  revert t. induction k as [|k IH]; intro t.
  - apply (is_derive_id t).
  - pose proof (odd_positive k) as O. cbn [term slope]. set (c := IZR (2 * Z.of_nat k + 3)) in *.
    apply (is_derive_ext (fun t => / c * (term t k * (t * t)))).
    { intro s. unfold Rdiv. apply Rmult_comm. }
    replace (t * term t k) with (/ c * (slope t k * (t * t) + term t k * (1 * t + t * 1))).
    { apply is_derive_Reals. apply derivable_pt_lim_scal.
      apply (derivable_pt_lim_mult (fun t => term t k) (fun t => t * t)). apply is_derive_Reals, IH.
      apply (derivable_pt_lim_mult (fun t => t) (fun t => t)); apply derivable_pt_lim_id. }
    assert (C : c = 2 * INR k + 3) by (unfold c; rewrite plus_IZR, mult_IZR, <- INR_IZR_INZ; reflexivity).
    assert (E : slope t k * t = (2 * INR k + 1) * term t k).
    { destruct k as [|j]. simpl. ring. pose proof (odd_positive j). cbn [slope term].
      rewrite S_INR. replace (IZR (2 * Z.of_nat j + 3)) with (2 * INR j + 3) in *
        by (rewrite plus_IZR, mult_IZR, <- INR_IZR_INZ; reflexivity). field. lra. }
    apply (Rmult_eq_reg_l c); [|lra]. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. rewrite C. clear C O IH. clearbody c.
    transitivity (slope t k * t * t + 2 * t * term t k); [ring|]. rewrite E. ring.
Qed.

Lemma series_derive t n :
  is_derive (fun t => bell t * series t n) t (bell t * (1 - slope t n)).
Proof.
  assert (B : is_derive bell t (- t * bell t)).
  { unfold bell. auto_derive; [exact I|]. change (- (t * t) * / 2) with (- (t * t) / 2). field. }
  assert (D : is_derive (fun t => series t n) t (1 - slope t n + t * series t n)).
  { induction n as [|n IH].
    - simpl. evar_last. apply @is_derive_const. unfold zero; simpl; ring.
    - cbn [series]. evar_last. apply @is_derive_plus. exact IH. apply term_derive.
      unfold plus; simpl. cbn [slope]. ring. }
  evar_last. apply (is_derive_mult bell (fun t => series t n)). exact B. exact D.
  intros; apply Rmult_comm. unfold plus, mult; simpl. ring.
Qed.

Lemma mass_derive z : is_derive mass z (bell z).
Proof.
  unfold mass. apply (is_derive_RInt bell (RInt bell 0) 0 z).
  - exists (mkposreal 1 Rlt_0_1). intros. apply (RInt_correct bell), ex_RInt_bell.
  - apply continuous_bell.
Qed.

(* What starts at 0 and never falls is positive after 0 and negative before. *)
Lemma rises f df z : f 0 = 0 -> (forall t, is_derive f t (df t)) -> (forall t, 0 <= df t) ->
  0 <= f z * z.
Proof.
  intros H0 D N. destruct (MVT_gen f 0 z df) as (c & _ & E).
  - intros. apply D.
  - intros x _. apply continuity_pt_filterlim, (ex_derive_continuous f). eexists. apply D.
  - rewrite H0 in E. replace (f z) with (df c * z) by lra. specialize (N c). nra.
Qed.

Lemma slope_nonneg t n : 0 <= slope t n.
Proof.
  destruct n as [|n]; [simpl; lra|]. simpl. induction n as [|n IH]. simpl; nra.
  cbn [term]. pose proof (odd_positive n).
  replace (t * (term t n * (t * t) / IZR (2 * Z.of_nat n + 3)))
    with ((t * term t n) * (t * t) / IZR (2 * Z.of_nat n + 3)) by (field; lra).
  apply Rle_mult_inv_pos; [nra|assumption].
Qed.

Lemma term_zero n : term 0 n = 0.
Proof. induction n; simpl; [reflexivity|]. rewrite IHn. unfold Rdiv. ring. Qed.

Theorem mass_by_series z n : Rabs (mass z - bell z * series z n) <= Rabs (term z n).
Proof.
  set (h := fun t => mass t - bell t * series t n).
  assert (H0 : h 0 = 0).
  { unfold h, mass. rewrite RInt_point.
    assert (E : series 0 n = 0) by (induction n; simpl; [reflexivity|]; rewrite IHn, term_zero; ring).
    rewrite E. unfold zero; simpl. ring. }
  assert (D : forall t, is_derive h t (bell t * slope t n)).
  { intro t. unfold h. evar_last. apply @is_derive_minus. apply mass_derive. apply series_derive.
    unfold minus, plus, opp; simpl. ring. }
  assert (P : forall t, 0 < bell t <= 1).
  { intro t. unfold bell. split. apply exp_pos. rewrite <- exp_0. apply exp_le. nra. }
  assert (A : 0 <= h z * z).
  { apply (rises h (fun t => bell t * slope t n)); auto. intro t.
    pose proof (P t). pose proof (slope_nonneg t n). nra. }
  assert (B : 0 <= (term z n - h z) * z).
  { apply (rises (fun t => term t n - h t) (fun t => slope t n - bell t * slope t n)).
    - rewrite term_zero, H0. ring.
    - intro t. evar_last. apply @is_derive_minus. apply term_derive. apply D. reflexivity.
    - intro t. pose proof (P t). pose proof (slope_nonneg t n). nra. }
  fold (h z). destruct (Rtotal_order z 0) as [Hz|[->|Hz]].
  - unfold Rabs. assert (h z <= 0) by nra. assert (term z n <= h z) by nra.
    destruct (Rcase_abs (h z)), (Rcase_abs (term z n)); lra.
  - rewrite H0, Rabs_R0. apply Rabs_pos.
  - assert (0 <= h z) by nra. assert (h z <= term z n) by nra. rewrite !Rabs_pos_eq; lra.
Qed.

(* --- the profile ------------------------------------------------------------------------------ *)

Lemma RInt_bell a b : RInt bell a b = mass b - mass a.
Proof.
  unfold mass. rewrite <- (RInt_Chasles bell 0 a b) by apply ex_RInt_bell. unfold plus; simpl. lra.
Qed.

Lemma mass_rises a b : a <= b -> mass a <= mass b.
Proof.
  intro H. pose proof (RInt_bell a b) as E.
  assert (0 <= RInt bell a b). { apply RInt_ge_0; auto. apply ex_RInt_bell. intros. apply Rlt_le, bell_positive. }
  lra.
Qed.

Lemma mass_ends k z : 0 < k -> k <= z -> mass k <= mass z <= mass k + bell k / k.
Proof.
  intros Hk H. pose proof (mass_rises k z H). pose proof (bell_tail k z Hk H).
  pose proof (RInt_bell k z). lra.
Qed.

Lemma mass_odd z : mass (- z) = - mass z.
Proof.
  unfold mass. pose proof (RInt_comp_lin bell (-1) 0 0 z (ex_RInt_bell _ _)) as E.
  replace (-1 * 0 + 0) with 0 in E by ring. replace (-1 * z + 0) with (- z) in E by ring.
  rewrite <- E. refine (eq_trans _ (RInt_opp bell 0 z (ex_RInt_bell 0 z))).
  apply RInt_ext. intros y _. unfold bell, scal, opp; simpl; unfold mult; simpl.
  replace ((-1 * y + 0) * (-1 * y + 0)) with (y * y) by ring. ring.
Qed.

Lemma RInt_loss mu e a b : RInt (normal_loss mu e) a b =
  (mass b - mass a) - exp e * (mass (b + mu) - mass (a + mu)).
Proof.
  rewrite <- !RInt_bell.
  replace (RInt bell (a + mu) (b + mu)) with (RInt (fun t => bell (t + mu)) a b).
  2: { rewrite <- (Rmult_1_l a) at 2. rewrite <- (Rmult_1_l b) at 2.
       rewrite <- (RInt_comp_lin bell 1 mu a b) by apply ex_RInt_bell.
       apply RInt_ext. intros. unfold scal; simpl; unfold mult; simpl. rewrite !Rmult_1_l. reflexivity. }
  assert (C : ex_RInt (fun t => bell (t + mu)) a b).
  { apply (ex_RInt_continuous (fun t => bell (t + mu))). intros z _.
    apply (continuous_comp (fun t => t + mu) bell).
    apply (ex_derive_continuous (fun t => t + mu)). auto_derive. exact I. apply continuous_bell. }
  pose proof (RInt_scal (fun t => bell (t + mu)) a b (exp e) C) as S.
  pose proof (RInt_minus bell (fun t => scal (exp e) (bell (t + mu))) a b (ex_RInt_bell a b)
    (ex_RInt_scal (fun t => bell (t + mu)) a b (exp e) C)) as M.
  refine (eq_trans (eq_trans _ M) (f_equal (minus (RInt bell a b)) S)). apply RInt_ext. intros t _.
  unfold normal_loss, bell, minus, plus, opp, scal; simpl; unfold mult; simpl.
  rewrite Rmult_minus_distr_l, <- !exp_plus, Rmult_1_r. unfold Rminus at 1. f_equal. f_equal. f_equal.
  field.
Qed.

(* From the start of the profile's integral, and from its end k on, the tail of the normal law. *)
Definition start (mu e : R) : R := e / mu - mu / 2.

Definition profile_bound (mu e k : R) : R :=
  mass k - mass (start mu e) - exp e * (mass k - mass (start mu e + mu)) + bell k / k.

Theorem profile_near mu e d k : 0 < mu -> 0 < k -> start mu e <= k ->
  profile_bound mu e k <= d * sqrt (2 * PI) -> normal_profile mu e d.
Proof.
  intros Hm Hk Ha H. apply (normal_profile_by_integral mu e d k Hm Hk Ha). fold (start mu e).
  assert (S : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; pose proof PI_RGT_0; lra).
  apply (Rmult_le_reg_r (sqrt (2 * PI))); [exact S|]. unfold Rdiv at 1.
  rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. eapply Rle_trans; [|exact H].
  rewrite RInt_loss. unfold profile_bound.
  pose proof (mass_rises k (k + mu)). pose proof (exp_pos e). nra.
Qed.

Theorem profile_far mu e d : 0 < mu -> 0 < start mu e ->
  bell (start mu e) / start mu e <= d * sqrt (2 * PI) -> normal_profile mu e d.
Proof.
  intros Hm Hk H. apply (normal_profile_by_integral mu e d (start mu e)); auto. apply Rle_refl.
  assert (S : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; pose proof PI_RGT_0; lra).
  fold (start mu e). rewrite RInt_point. unfold zero; simpl. rewrite Rplus_0_l.
  apply (Rmult_le_reg_r (sqrt (2 * PI))); [exact S|]. unfold Rdiv at 1.
  rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. exact H.
Qed.
