(* The privacy profile of Gaussian noise, bounded by one integral over an interval and its tail. *)

Require Import Reals Lra.
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

(* exp(-t^2/2) <= (t / k) exp(-t^2/2) from k on, whose integral is known. *)
Lemma tail mu e k b : 0 < k -> k <= b -> RInt (normal_loss mu e) k b <= exp (- (k * k) / 2) / k.
Proof.
  intros Hk Hb. set (g := fun t => t / k * exp (- (t * t) / 2)).
  assert (D : is_RInt g k b (- exp (- (b * b) / 2) / k - (- exp (- (k * k) / 2) / k))).
  { apply (is_RInt_derive (fun t => - exp (- (t * t) / 2) / k) g).
    - intros x _. unfold g. auto_derive. exact I.
      change (- (x * x) * / 2) with (- (x * x) / 2). field. lra.
    - intros x _. unfold g.
      apply (ex_derive_continuous (fun t => t / k * exp (- (t * t) / 2))). auto_derive. exact I. }
  assert (L : RInt (normal_loss mu e) k b <= RInt g k b).
  { apply RInt_le; auto. apply ex_RInt_normal_loss. eexists. exact D.
    intros t [H1 H2]. unfold normal_loss, g. pose proof (exp_pos (- (t * t) / 2)).
    pose proof (exp_pos (e - mu * t - mu * mu / 2)).
    assert (1 <= t / k). { apply (Rmult_le_reg_r k); [lra|]. field_simplify; lra. } nra. }
  rewrite (is_RInt_unique _ _ _ _ D) in L.
  assert (0 < exp (- (b * b) / 2) / k) by (apply Rdiv_lt_0_compat; [apply exp_pos|lra]). lra.
Qed.

Theorem normal_profile_by_integral mu e d k : 0 < mu -> 0 < k -> e / mu - mu / 2 <= k ->
  (RInt (normal_loss mu e) (e / mu - mu / 2) k + exp (- (k * k) / 2) / k) / sqrt (2 * PI) <= d ->
  normal_profile mu e d.
Proof.
  intros Hm Hk Hak H b Hb. set (a := e / mu - mu / 2) in *.
  assert (S : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; pose proof PI_RGT_0; lra).
  eapply Rle_trans; [|exact H]. apply Rmult_le_compat_r. apply Rlt_le, Rinv_0_lt_compat, S.
  assert (E : 0 < exp (- (k * k) / 2) / k) by (apply Rdiv_lt_0_compat; [apply exp_pos|lra]).
  destruct (Rle_lt_dec b k) as [Hbk|Hkb].
  - rewrite <- (RInt_Chasles (normal_loss mu e) a b k) by apply ex_RInt_normal_loss.
    assert (0 <= RInt (normal_loss mu e) b k).
    { apply RInt_ge_0; auto. apply ex_RInt_normal_loss. intros t [H1 _].
      apply normal_loss_nonneg; unfold a in *; lra. }
    unfold plus; simpl; lra.
  - rewrite <- (RInt_Chasles (normal_loss mu e) a k b) by apply ex_RInt_normal_loss.
    pose proof (tail mu e k b Hk (Rlt_le _ _ Hkb)). unfold plus; simpl; lra.
Qed.
