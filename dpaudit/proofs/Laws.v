(* Laws of outcomes, and the measures of privacy between two laws.

   A space says which functions with values in [0, 1] have a mean (the measurable ones): constants
   do, and rising functions of such a function.  A law gives each its mean.  Nothing here asks
   whether outcomes are finite, discrete or continuous. *)

Require Import Reals Lra.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

Definition rising (phi : R -> R) : Prop :=
  (forall s t, 0 <= s -> s <= t -> t <= 1 -> phi s <= phi t) /\
  (forall t, 0 <= t <= 1 -> 0 <= phi t <= 1).

Record space : Type := Space {
  outcome :> Type;
  test : (outcome -> R) -> Prop;
  test_range : forall f, test f -> forall x, 0 <= f x <= 1;
  test_constant : forall c, 0 <= c <= 1 -> test (fun _ => c);
  test_rising : forall phi f, rising phi -> test f -> test (fun x => phi (f x))
}.

Record law (X : space) : Type := Law {
  mean :> (X -> R) -> R;
  mean_linear : forall a b f g, test X f -> test X g -> test X (fun x => a * f x + b * g x) ->
    mean (fun x => a * f x + b * g x) = a * mean f + b * mean g;
  mean_order : forall f g, test X f -> test X g -> (forall x, f x <= g x) -> mean f <= mean g;
  mean_one : mean (fun _ => 1) = 1
}.

(* x^b for x >= 0 and b > 0; Rpower is 1 at x = 0. *)
Definition power (x b : R) : R := if Rle_dec x 0 then 0 else exp (b * ln x).

(* --- the measures ----------------------------------------------------------------------------- *)

Definition measure : Type := forall X : space, law X -> law X -> Prop.

Definition approx (epsilon delta : R) : measure := fun X P Q =>
  forall f, test X f -> P f <= exp epsilon * Q f + delta.

Definition pure (epsilon : R) : measure := approx epsilon 0.

(* D_a(P || Q) <= r, by Hoelder's inequality and its equality case: the dual of the L^a norm. *)
Definition renyi (a r : R) : measure := fun X P Q =>
  forall f, test X f ->
    power (P f) a <= exp ((a - 1) * r) * power (Q (fun x => power (f x) (a / (a - 1)))) (a - 1).

(* Bun, Steinke 2016, Definition 1.1. *)
Definition zcdp (rho : R) : measure := fun X P Q => forall a, 1 < a -> renyi a (rho * a) X P Q.

(* The hockey-stick divergence of N(mu, 1) from N(0, 1) at epsilon is at most delta. *)
Definition normal_loss (mu epsilon t : R) : R :=
  exp (- (t * t) / 2) * (1 - exp (epsilon - mu * t - mu * mu / 2)).

Definition normal_profile (mu epsilon delta : R) : Prop :=
  forall b, epsilon / mu - mu / 2 <= b ->
    RInt (normal_loss mu epsilon) (epsilon / mu - mu / 2) b / sqrt (2 * PI) <= delta.

(* mu-GDP by its privacy profile: Dong, Roth, Su 2022, Definition 2.6 with Proposition 2.12. *)
Definition gdp (mu : R) : measure := fun X P Q =>
  forall epsilon delta, normal_profile mu epsilon delta -> approx epsilon delta X P Q.

(* --- means ------------------------------------------------------------------------------------ *)

Section Means.
Variable X : space.
Variable P : law X.

Lemma mean_constant c : 0 <= c <= 1 -> P (fun _ => c) = c.
Proof.
  intro H. assert (E : (fun _ : X => c) = (fun _ : X => c * 1 + 0 * 1)).
  { apply FunctionalExtensionality.functional_extensionality. intro. ring. }
  rewrite E, (mean_linear X P c 0 (fun _ => 1) (fun _ => 1)), (mean_one X P).
  ring. apply test_constant; lra. apply test_constant; lra.
  rewrite <- E. apply test_constant; exact H.
Qed.

Lemma mean_range f : test X f -> 0 <= P f <= 1.
Proof.
  intro H. pose proof (test_range X f H) as R. split.
  rewrite <- (mean_constant 0) by lra. apply mean_order; auto. apply test_constant; lra. apply R.
  rewrite <- (mean_one X P). apply mean_order; auto. apply test_constant; lra. apply R.
Qed.

Lemma rising_affine c d k : 0 <= c -> 0 <= d -> 0 < k -> c + d <= k ->
  rising (fun t => c / k * t + d / k * 1).
Proof.
  intros Hc Hd Hk H. assert (0 <= c / k) by (apply Rle_mult_inv_pos; lra).
  assert (0 <= d / k) by (apply Rle_mult_inv_pos; lra).
  assert (c / k + d / k <= 1).
  { apply (Rmult_le_reg_r k); [lra|]. field_simplify; lra. }
  split; intros; nra.
Qed.

(* What is below an affine function everywhere is so on average, also where it passes 1. *)
Lemma mean_affine c d f g : 0 <= c -> 0 <= d -> test X f -> test X g ->
  (forall x, g x <= c * f x + d) -> P g <= c * P f + d.
Proof.
  intros Hc Hd Hf Hg H. set (k := c + d + 1).
  assert (Hk : 0 < k) by (unfold k; lra).
  assert (U : test X (fun x => 1 / k * g x + 0 / k * 1)).
  { apply (test_rising X (fun t => 1 / k * t + 0 / k * 1)); auto.
    apply rising_affine; unfold k; lra. }
  assert (V : test X (fun x => c / k * f x + d / k * 1)).
  { apply (test_rising X (fun t => c / k * t + d / k * 1)); auto.
    apply rising_affine; unfold k; lra. }
  assert (O : test X (fun _ => 1)) by (apply test_constant; lra).
  pose proof (mean_linear X P _ _ _ _ Hg O U) as EU. cbv beta in EU.
  pose proof (mean_linear X P _ _ _ _ Hf O V) as EV. cbv beta in EV.
  assert (L : P (fun x => 1 / k * g x + 0 / k * 1) <= P (fun x => c / k * f x + d / k * 1)).
  { apply mean_order; auto. intro x. apply (Rmult_le_reg_r k); [lra|].
    field_simplify; [|lra|lra]. specialize (H x). lra. }
  rewrite EU, EV, (mean_one X P) in L.
  apply (Rmult_le_compat_r k) in L; [|lra]. field_simplify in L; lra.
Qed.

End Means.

(* --- powers ----------------------------------------------------------------------------------- *)

Lemma power_zero b : power 0 b = 0.
Proof. unfold power. destruct (Rle_dec 0 0); lra. Qed.

Lemma power_nonneg x b : 0 <= power x b.
Proof. unfold power. destruct (Rle_dec x 0). lra. apply Rlt_le, exp_pos. Qed.

Lemma power_positive x b : 0 < x -> power x b = exp (b * ln x).
Proof. intro H. unfold power. destruct (Rle_dec x 0). lra. reflexivity. Qed.

Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. intros [H|H]. apply Rlt_le, exp_increasing, H. rewrite H. lra. Qed.

Lemma power_le x y b : 0 < b -> x <= y -> power x b <= power y b.
Proof.
  intros Hb H. destruct (Rle_lt_dec x 0).
  { unfold power at 1. destruct (Rle_dec x 0); [apply power_nonneg|lra]. }
  rewrite !power_positive by lra. apply exp_le, Rmult_le_compat_l; [lra|].
  destruct (Req_dec x y) as [->|]; [lra|]. apply Rlt_le, ln_increasing; lra.
Qed.

Lemma power_power x a b : power (power x a) b = power x (a * b).
Proof.
  destruct (Rle_lt_dec x 0).
  { assert (E : forall c, power x c = 0).
    { intro c. unfold power. destruct (Rle_dec x 0); lra. }
    rewrite (E a), power_zero, E. reflexivity. }
  rewrite (power_positive x a), power_positive, (power_positive x) by (try apply exp_pos; lra).
  rewrite ln_exp. f_equal. ring.
Qed.

Lemma power_one x : 0 <= x -> power x 1 = x.
Proof.
  intros [H|<-]; [|apply power_zero]. rewrite power_positive by lra.
  rewrite Rmult_1_l. apply exp_ln, H.
Qed.

Lemma power_scaled r x b : power (exp r * x) b = exp (b * r) * power x b.
Proof.
  pose proof (exp_pos r). destruct (Rle_lt_dec x 0).
  { unfold power. destruct (Rle_dec x 0); [|lra]. destruct (Rle_dec (exp r * x) 0); [ring|]. nra. }
  rewrite !power_positive by nra. rewrite ln_mult, ln_exp by lra. rewrite <- exp_plus. f_equal. ring.
Qed.

Lemma ln_at_most_0 x : 0 < x <= 1 -> ln x <= 0.
Proof. intros [H [L|E]]. rewrite <- ln_1. apply Rlt_le, ln_increasing; lra. rewrite E, ln_1. lra. Qed.

Lemma power_below x b : 1 <= b -> 0 <= x <= 1 -> power x b <= x.
Proof.
  intros Hb [[H|<-] L]; [|rewrite power_zero; lra].
  rewrite <- (power_one x) at 2 by lra. rewrite !power_positive by lra. apply exp_le.
  pose proof (ln_at_most_0 x). nra.
Qed.

Lemma rising_power b : 0 < b -> rising (fun t => power t b).
Proof.
  intro Hb. split; intros. apply power_le; lra.
  split. apply power_nonneg. rewrite <- exp_0. destruct (Rle_lt_dec t 0).
  unfold power. destruct (Rle_dec t 0). pose proof (exp_pos 0). lra. lra.
  rewrite power_positive by lra. apply exp_le. pose proof (ln_at_most_0 t). nra.
Qed.

Lemma test_power (X : space) f b : 0 < b -> test X f -> test X (fun x => power (f x) b).
Proof. intros Hb H. apply (test_rising X (fun t => power t b)); auto. apply rising_power, Hb. Qed.
