(* Finite outcomes: every vector of probabilities is a law, and the measures are the usual sums.
   No exported certificate needs this file; it shows that the definitions of Laws.v are met. *)

Require Import Reals Lra Lia Bool PeanoNat.
From Coquelicot Require Import Coquelicot.
From DPAudit Require Import Laws Composition.
Require Import List.
Import ListNotations.
Open Scope R_scope.

Section Finite.
Variable T : Type.
Variable outcomes : list T.

Definition finite : space.
Proof.
  refine (Space T (fun f => forall x, 0 <= f x <= 1) _ _ _); auto.
  intros phi f [_ H] Hf x. apply H, Hf.
Defined.

Fixpoint total_of (xs : list T) (f : T -> R) : R :=
  match xs with [] => 0 | x :: rest => f x + total_of rest f end.

Lemma total_of_linear xs a b f g :
  total_of xs (fun x => a * f x + b * g x) = a * total_of xs f + b * total_of xs g.
Proof. induction xs as [|x xs IH]; simpl. ring. rewrite IH. ring. Qed.

Lemma total_of_order xs f g : (forall x, f x <= g x) -> total_of xs f <= total_of xs g.
Proof. intro H. induction xs as [|x xs IH]; simpl. lra. specialize (H x). lra. Qed.

Definition probabilities (p : T -> R) : Prop := (forall x, 0 <= p x) /\ total_of outcomes p = 1.

Definition finite_law (p : T -> R) (H : probabilities p) : law finite.
Proof.
  refine (Law finite (fun f => total_of outcomes (fun x => p x * f x)) _ _ _).
  - intros a b f g _ _ _.
    rewrite <- (total_of_linear outcomes a b (fun x => p x * f x) (fun x => p x * g x)).
    apply f_equal, FunctionalExtensionality.functional_extensionality. intro x. ring.
  - intros f g _ _ L. apply total_of_order. intro x. destruct H as [N _]. specialize (N x).
    specialize (L x). nra.
  - destruct H as [_ E]. eapply eq_trans; [|exact E].
    apply f_equal, FunctionalExtensionality.functional_extensionality. intro x. ring.
Defined.

Section Two.
Variables p q : T -> R.
Hypothesis Hp : probabilities p.
Hypothesis Hq : probabilities q.

(* Dwork, McSherry, Nissim, Smith 2006, Definition 1: no outcome is e^epsilon times as likely. *)
Theorem finite_pure epsilon : (forall x, p x <= exp epsilon * q x) ->
  pure epsilon finite (finite_law p Hp) (finite_law q Hq).
Proof.
  intros H f Hf. simpl. rewrite Rplus_0_r.
  replace (exp epsilon * total_of outcomes (fun x => q x * f x))
    with (total_of outcomes (fun x => exp epsilon * (q x * f x) + 0 * 0)).
  2: { rewrite total_of_linear. ring. }
  apply total_of_order. intro x. specialize (H x). destruct (Hf x). nra.
Qed.

(* Balle, Wang 2018, Theorem 5: the hockey-stick divergence. *)
Theorem finite_approx epsilon delta :
  total_of outcomes (fun x => Rmax 0 (p x - exp epsilon * q x)) <= delta ->
  approx epsilon delta finite (finite_law p Hp) (finite_law q Hq).
Proof.
  intros H f Hf. simpl. eapply Rle_trans; [|apply Rplus_le_compat_l, H].
  replace (exp epsilon * total_of outcomes (fun x => q x * f x) +
           total_of outcomes (fun x => Rmax 0 (p x - exp epsilon * q x)))
    with (total_of outcomes (fun x =>
      exp epsilon * (q x * f x) + 1 * Rmax 0 (p x - exp epsilon * q x))).
  2: { rewrite total_of_linear. ring. }
  apply total_of_order. intro x. destruct (Hf x).
  pose proof (Rmax_l 0 (p x - exp epsilon * q x)). pose proof (Rmax_r 0 (p x - exp epsilon * q x)).
  nra.
Qed.

(* And only then: the test that picks the outcomes that are too likely. *)
Theorem approx_finite epsilon delta :
  approx epsilon delta finite (finite_law p Hp) (finite_law q Hq) ->
  total_of outcomes (fun x => Rmax 0 (p x - exp epsilon * q x)) <= delta.
Proof.
  intro H. set (f := fun x => if Rle_dec (p x - exp epsilon * q x) 0 then 0 else 1).
  assert (Hf : forall x, 0 <= f x <= 1) by (intro x; unfold f; destruct (Rle_dec _ _); lra).
  specialize (H f Hf). simpl in H.
  replace (total_of outcomes (fun x => Rmax 0 (p x - exp epsilon * q x)))
    with (total_of outcomes (fun x => 1 * (p x * f x) + (- exp epsilon) * (q x * f x))).
  rewrite total_of_linear. lra.
  f_equal. apply FunctionalExtensionality.functional_extensionality. intro x. unfold f.
  destruct (Rle_dec (p x - exp epsilon * q x) 0).
  rewrite Rmax_left; lra. rewrite Rmax_right; lra.
Qed.

End Two.
End Finite.

(* --- randomised response ---------------------------------------------------------------------- *)

Section Response.
Variable epsilon : R.
Variable others : nat.
Hypothesis Positive : 0 <= epsilon.

Let whole : R := exp epsilon + INR others.

(* The answer is the value with e^epsilon times the chance of each other value 0 .. others. *)
Definition response (value answer : nat) : R :=
  (if Nat.eq_dec answer value then exp epsilon else 1) / whole.

Lemma whole_positive : 0 < whole.
Proof. unfold whole. pose proof (exp_pos epsilon). pose proof (pos_INR others). lra. Qed.

Lemma response_ratio value other answer : response value answer <= exp epsilon * response other answer.
Proof.
  unfold response. pose proof whole_positive. pose proof (exp_le 0 epsilon Positive) as E.
  rewrite exp_0 in E. unfold Rdiv. rewrite <- Rmult_assoc. apply Rmult_le_compat_r.
  apply Rlt_le, Rinv_0_lt_compat; assumption.
  destruct (Nat.eq_dec answer value), (Nat.eq_dec answer other); nra.
Qed.

(* Kairouz, Oh, Viswanath 2016, Theorem 4: randomised response is epsilon-DP. *)
Theorem response_is_pure value other
  (H : probabilities nat (seq 0 (S others)) (response value))
  (H' : probabilities nat (seq 0 (S others)) (response other)) :
  pure epsilon (finite nat) (finite_law nat _ _ H) (finite_law nat _ _ H').
Proof. apply finite_pure. intro answer. apply response_ratio. Qed.

Lemma response_probabilities value : (value <= others)%nat ->
  probabilities nat (seq 0 (S others)) (response value).
Proof.
  intro Hv. pose proof whole_positive as W. split.
  - intro x. unfold response. apply Rlt_le, Rdiv_lt_0_compat; auto.
    destruct (Nat.eq_dec x value); [apply exp_pos|lra].
  - assert (G : forall n a, total_of nat (seq a n) (response value) =
      (INR n + if andb (a <=? value)%nat (value <? a + n)%nat then exp epsilon - 1 else 0) / whole).
    { induction n as [|n IH]; intro a.
      - simpl. replace (andb (a <=? value)%nat (value <? a + 0)%nat) with false. unfold Rdiv. ring.
        destruct (Nat.leb_spec a value), (Nat.ltb_spec value (a + 0)); simpl; auto; lia.
      - cbn [seq total_of]. rewrite IH. unfold response. rewrite S_INR.
        destruct (Nat.eq_dec a value), (Nat.leb_spec (S a) value), (Nat.ltb_spec value (S a + n)),
          (Nat.leb_spec a value), (Nat.ltb_spec value (a + S n)); simpl; try lia; unfold Rdiv; ring. }
    rewrite G. destruct (Nat.leb_spec 0 value), (Nat.ltb_spec value (0 + S others)); try lia.
    cbn [andb]. rewrite S_INR. unfold whole. field. unfold whole in W. lra.
Qed.

End Response.
