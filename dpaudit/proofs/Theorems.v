(* The theorems of the literature that exported certificates rest on, each a hypothesis under its
   own name: Print Assumptions lists those that a claim needs. *)

Require Import Reals Lra Lia ZArith Bool.
From Coquelicot Require Import Coquelicot.
From DPAudit Require Import Laws Composition Normal Nodes.
Require Import List.
Open Scope R_scope.

(* Dong, Roth, Su 2022, Theorem 2.7: the Gaussian mechanism is (1 / noise multiplier)-GDP. *)
Axiom gaussian_is_gdp : forall sigma, 0 < sigma ->
  private (gdp (1 / sigma)) (Leaf (Gaussian sigma)).

(* Bun, Steinke 2016, Proposition 1.6: the Gaussian mechanism. *)
Axiom gaussian_is_zcdp : forall sigma, 0 < sigma ->
  private (zcdp (1 / (2 * (sigma * sigma)))) (Leaf (Gaussian sigma)).

(* Dong, Roth, Su 2022, Corollary 3.3: adaptive composition of Gaussian differential privacy. *)
Axiom gdp_composes : forall mu nu Z R R', 0 < mu -> 0 < nu ->
  sequence (gdp mu) (gdp nu) Z R R' -> gdp (sqrt (mu * mu + nu * nu)) Z R R'.

(* Dong, Roth, Su 2022, Section 2.2: G_mu falls as mu rises, from Id at 0. *)
Axiom gdp_weakens : forall s t X P Q, s <= t -> gdp_square s X P Q -> gdp_square t X P Q.

(* Denisov, McMahan, Rush, Smith, Thakurta 2022, Theorem 2.1: rows C X + Z that look back alone,
   each record in one round, by the largest norm of a column of C. *)
Axiom correlated_is_gdp : forall sigma rounds strategy d, 0 < sigma -> 0 < d ->
  causal strategy -> (forall t, (1 <= t <= rounds)%Z -> column strategy t <= d) ->
  private (gdp (sqrt d / sigma)) (Leaf (CorrelatedGaussian sigma rounds strategy)).

(* Dwork, McSherry, Nissim, Smith 2006, Proposition 1: the Laplace mechanism. *)
Axiom laplace_is_pure : forall b, 0 < b -> private (pure (1 / b)) (Leaf (Laplace b)).

(* Bun, Steinke 2016, Proposition 1.4: pure privacy, in both orders of the neighbours. *)
Axiom laplace_is_zcdp : forall b, 0 < b -> private (zcdp (1 / (2 * (b * b)))) (Leaf (Laplace b)).

(* Canonne, Kamath, Steinke 2020, Theorem 4: the discrete Gaussian. *)
Axiom discrete_gaussian_is_zcdp : forall variance sensitivity, 0 < variance ->
  private (zcdp (sensitivity * sensitivity / (2 * variance)))
    (Leaf (DiscreteGaussian variance sensitivity)).

(* Ghosh, Roughgarden, Sundararajan 2009, Section 1.2: the geometric mechanism. *)
Axiom discrete_laplace_is_pure : forall scale sensitivity, 0 < scale ->
  private (pure (sensitivity / scale)) (Leaf (DiscreteLaplace scale sensitivity)).

(* McSherry, Talwar 2007, Theorem 6: the exponential mechanism, by the range of its loss. *)
Axiom exponential_is_pure : forall range, 0 <= range ->
  private (pure range) (Leaf (ExponentialMechanism range)).

(* Lyu, Su, Li 2017, Theorem 4: above a threshold, noise of 1 / threshold and 2 c / query. *)
Axiom above_threshold_is_pure : forall threshold query, 0 < threshold -> 0 < query ->
  private (pure (threshold + query)) (Leaf (AboveThreshold threshold query)).

(* Warner 1965; Kairouz, Oh, Viswanath 2016: randomised response. *)
Axiom randomized_response_is_pure : forall epsilon choices, 0 <= epsilon -> 2 <= choices ->
  private (pure epsilon) (Leaf (RandomizedResponse epsilon choices)).

(* --- in the form in which derivations use them ------------------------------------------------ *)

Lemma gdp_of_square s X P Q : 0 < s -> gdp_square s X P Q <-> gdp (sqrt s) X P Q.
Proof. intro H. unfold gdp_square. destruct (Rle_dec s 0); [lra|tauto]. Qed.

Lemma square_of_gdp s X P Q : s <= 0 -> gdp_square s X P Q <-> same X P Q.
Proof. intro H. unfold gdp_square. destruct (Rle_dec s 0); [tauto|lra]. Qed.

Theorem gaussian_gdp sigma s : 0 < sigma -> s * (sigma * sigma) = 1 ->
  private (of_gdp s 0) (Leaf (Gaussian sigma)).
Proof.
  intros Hs E X P Q H. assert (0 < s) by nra. apply gdp_of_square; auto.
  replace (sqrt s) with (1 / sigma); [exact (gaussian_is_gdp sigma Hs X P Q H)|].
  apply Rlt_le in Hs as Hs'. symmetry. apply sqrt_lem_1; [lra| |].
  apply Rlt_le, Rdiv_lt_0_compat; lra. apply (Rmult_eq_reg_r (sigma * sigma)); [|nra].
  rewrite E. field. lra.
Qed.

Theorem gaussian_zcdp sigma rho : 0 < sigma -> 2 * rho * (sigma * sigma) = 1 ->
  private (of_zcdp rho 0) (Leaf (Gaussian sigma)).
Proof.
  intros Hs E. replace rho with (1 / (2 * (sigma * sigma))); [exact (gaussian_is_zcdp sigma Hs)|].
  apply (Rmult_eq_reg_r (2 * (sigma * sigma))); [|nra]. field_simplify; [|lra]. lra.
Qed.

Theorem gaussian_renyi sigma a r : 1 < a -> 0 < sigma -> 2 * r * (sigma * sigma) = a ->
  private (of_renyi a r 0) (Leaf (Gaussian sigma)).
Proof.
  intros Ha Hs E X P Q H. replace r with (1 / (2 * (sigma * sigma)) * a).
  apply (gaussian_is_zcdp sigma Hs X P Q H a Ha).
  apply (Rmult_eq_reg_r (2 * (sigma * sigma))); [|nra]. field_simplify; [|lra]. lra.
Qed.

Lemma tree_level_squares rounds level t n :
  0 <= squares (tree_level rounds level) t n <= 1 /\
  ((2 * Z.of_nat n * 2 ^ Z.of_nat level < t)%Z -> squares (tree_level rounds level) t n = 0).
Proof.
  assert (W : (0 < 2 ^ Z.of_nat level)%Z) by (apply Z.pow_pos_nonneg; lia).
  induction n as [|n [B N]]. { simpl. split; [lra|reflexivity]. }
  cbn [squares]. set (w := (2 ^ Z.of_nat level)%Z) in *.
  assert (D : entry (tree_level rounds level) n t =
    if ((2 * Z.of_nat n * w <? t) && (t <=? (2 * Z.of_nat n + 1) * w))%Z then 1 else 0)
    by reflexivity.
  rewrite D. destruct ((2 * Z.of_nat n * w <? t) && (t <=? (2 * Z.of_nat n + 1) * w))%Z eqn:E.
  - apply andb_prop in E as [E1 E2]. apply Z.ltb_lt in E1. apply Z.leb_le in E2.
    rewrite (N E1). split; [lra|]. intro H. exfalso. nia.
  - split; [lra|]. intro H. rewrite N; [lra|]. nia.
Qed.

Lemma tree_column rounds t : column (tree rounds) t <= IZR (Z.log2 rounds + 1).
Proof.
  unfold tree. assert (G : forall a n,
    column (map (tree_level rounds) (seq a n)) t <= INR n).
  { intros a n. revert a. induction n as [|n IH]; intro a. simpl; lra.
    rewrite S_INR. cbn [seq map column]. specialize (IH (S a)).
    pose proof (tree_level_squares rounds a t (how_many (tree_level rounds a))) as [[_ B] _]. lra. }
  eapply Rle_trans. apply G. rewrite INR_IZR_INZ, Z2Nat.id; [lra|].
  pose proof (Z.log2_nonneg rounds). lia.
Qed.

Lemma tree_causal rounds : causal (tree rounds).
Proof.
  apply List.Forall_map, List.Forall_forall. intros level _ i t H.
  unfold tree_level in *. cbn [entry released] in *.
  destruct ((_ <? t) && (t <=? _))%Z eqn:E in H; [|exfalso; apply H; reflexivity].
  apply andb_prop in E as [_ E]. apply Z.leb_le in E. exact E.
Qed.

Theorem tree_gdp sigma rounds levels s : 0 < sigma ->
  (Z.log2 rounds + 1)%Z = levels -> s * (sigma * sigma) = IZR levels ->
  private (of_gdp s 0) (Leaf (CorrelatedGaussian sigma rounds (tree rounds))).
Proof.
  intros Hs <- E X P Q H. set (d := IZR (Z.log2 rounds + 1)) in *.
  assert (Hd : 0 < d). { apply IZR_lt. pose proof (Z.log2_nonneg rounds). lia. }
  assert (0 < s) by nra. apply gdp_of_square; auto.
  replace (sqrt s) with (sqrt d / sigma).
  - apply (correlated_is_gdp sigma rounds (tree rounds) d Hs Hd (tree_causal rounds)); auto.
    intros t _. apply tree_column.
  - rewrite <- E, sqrt_mult, sqrt_square by nra. field. lra.
Qed.

Theorem laplace_pure b e : 0 < b -> e * b = 1 -> private (approx e 0) (Leaf (Laplace b)).
Proof.
  intros Hb E. replace e with (1 / b); [exact (laplace_is_pure b Hb)|].
  apply (Rmult_eq_reg_r b); [|lra]. rewrite E. field. lra.
Qed.

Theorem laplace_zcdp b rho : 0 < b -> 2 * rho * (b * b) = 1 ->
  private (of_zcdp rho 0) (Leaf (Laplace b)).
Proof.
  intros Hb E. replace rho with (1 / (2 * (b * b))); [exact (laplace_is_zcdp b Hb)|].
  apply (Rmult_eq_reg_r (2 * (b * b))); [|nra]. field_simplify; [|lra]. lra.
Qed.

Theorem discrete_gaussian_zcdp variance move rho : 0 < variance ->
  2 * rho * variance = move * move ->
  private (of_zcdp rho 0) (Leaf (DiscreteGaussian variance move)).
Proof.
  intros Hv E. replace rho with (move * move / (2 * variance)).
  exact (discrete_gaussian_is_zcdp variance move Hv).
  rewrite <- E. field. lra.
Qed.

Theorem discrete_gaussian_renyi variance move a r : 1 < a -> 0 < variance ->
  2 * r * variance = a * (move * move) ->
  private (of_renyi a r 0) (Leaf (DiscreteGaussian variance move)).
Proof.
  intros Ha Hv E X P Q H. replace r with (move * move / (2 * variance) * a).
  apply (discrete_gaussian_is_zcdp variance move Hv X P Q H a Ha).
  apply (Rmult_eq_reg_r (2 * variance)); [|lra]. field_simplify; [|lra]. lra.
Qed.

Theorem discrete_laplace_pure scale move e : 0 < scale -> e * scale = move ->
  private (approx e 0) (Leaf (DiscreteLaplace scale move)).
Proof.
  intros Hs E. replace e with (move / scale); [exact (discrete_laplace_is_pure scale move Hs)|].
  rewrite <- E. field. lra.
Qed.

Theorem randomized_response_pure epsilon choices : 0 <= epsilon -> 2 <= choices ->
  private (approx epsilon 0) (Leaf (RandomizedResponse epsilon choices)).
Proof. exact (randomized_response_is_pure epsilon choices). Qed.

Theorem exponential_pure range : 0 <= range ->
  private (approx range 0) (Leaf (ExponentialMechanism range)).
Proof. exact (exponential_is_pure range). Qed.

Theorem above_threshold_pure threshold query e : 0 < threshold -> 0 < query ->
  threshold + query = e -> private (approx e 0) (Leaf (AboveThreshold threshold query)).
Proof. intros Ht Hq <-. exact (above_threshold_is_pure threshold query Ht Hq). Qed.

(* What a leaf states is what is asked. *)
Theorem stated_approx e d : private (approx e d) (ApproxDP e d).
Proof. intros X P Q H. exact H. Qed.

Theorem stated_pure e : private (approx e 0) (PureDP e).
Proof. intros X P Q H. exact H. Qed.

Theorem stated_zcdp r : private (of_zcdp r 0) (ZCDP r).
Proof. intros X P Q H. exact H. Qed.

Theorem stated_gdp mu s : 0 < mu -> s = mu * mu -> private (of_gdp s 0) (GDP mu).
Proof.
  intros Hm -> X P Q H. apply gdp_of_square; [nra|]. rewrite sqrt_square; [exact H|lra].
Qed.

Lemma normal_profile_nonneg mu e d : normal_profile mu e d -> 0 <= d.
Proof.
  intro H. specialize (H _ (Rle_refl _)). rewrite RInt_point in H. unfold zero in H; simpl in H.
  unfold Rdiv in H. rewrite Rmult_0_l in H. exact H.
Qed.

Lemma gdp_adds : adds of_gdp.
Proof.
  split. { intros X P Q H. apply square_of_gdp; [lra|exact H]. }
  unfold of_gdp. intros v _ w _ Z R R' Hv _ Hw _ S. destruct Hv as [Hv|<-], Hw as [Hw|<-].
  - apply gdp_of_square; [lra|]. rewrite <- (sqrt_sqrt v), <- (sqrt_sqrt w) by lra.
    apply gdp_composes; try (apply sqrt_lt_R0; assumption).
    revert S. apply sequence_le; intros X P Q; apply gdp_of_square; assumption.
  - rewrite Rplus_0_r. apply gdp_of_square; [assumption|].
    destruct S as (X & Y & pair & P & P' & K & K' & HP & HK & J & J').
    intros e d Hn f Hf.
    rewrite (joined_value _ _ _ _ _ _ _ J f Hf), (joined_value _ _ _ _ _ _ _ J' f Hf).
    replace (fun x => K' x (fun y => f (pair x y))) with (fun x => K x (fun y => f (pair x y))).
    apply gdp_of_square in HP; [|assumption]. apply (HP e d Hn).
    exact (joined_mean _ _ _ _ _ _ _ J f Hf).
    apply FunctionalExtensionality.functional_extensionality. intro x.
    assert (E := HK x). apply square_of_gdp in E; [|lra].
    apply E, (joined_section _ _ _ _ _ _ _ J f Hf).
  - rewrite Rplus_0_l. apply gdp_of_square; [assumption|].
    destruct S as (X & Y & pair & P & P' & K & K' & HP & HK & J & J').
    intros e d Hn f Hf. apply square_of_gdp in HP; [|lra].
    rewrite (joined_value _ _ _ _ _ _ _ J f Hf), (joined_value _ _ _ _ _ _ _ J' f Hf).
    rewrite HP by exact (joined_mean _ _ _ _ _ _ _ J f Hf).
    apply mean_affine.
    apply Rlt_le, exp_pos. exact (normal_profile_nonneg _ _ _ Hn).
    exact (joined_mean _ _ _ _ _ _ _ J' f Hf). exact (joined_mean _ _ _ _ _ _ _ J f Hf).
    intro x. assert (E := HK x). apply gdp_of_square in E; [|assumption].
    apply (E e d Hn), (joined_section _ _ _ _ _ _ _ J f Hf).
  - replace (0 + 0) with 0 by ring. apply square_of_gdp; [lra|].
    destruct S as (X & Y & pair & P & P' & K & K' & HP & HK & J & J'). intros f Hf.
    apply square_of_gdp in HP; [|lra].
    rewrite (joined_value _ _ _ _ _ _ _ J f Hf), (joined_value _ _ _ _ _ _ _ J' f Hf).
    replace (fun x => K x (fun y => f (pair x y))) with (fun x => K' x (fun y => f (pair x y))).
    apply HP. exact (joined_mean _ _ _ _ _ _ _ J' f Hf).
    apply FunctionalExtensionality.functional_extensionality. intro x.
    assert (E := HK x). apply square_of_gdp in E; [|lra].
    symmetry. apply E, (joined_section _ _ _ _ _ _ _ J f Hf).
Qed.

Lemma gdp_weakens_square : weakens of_gdp.
Proof. intros v d w e X P Q _ H _. apply gdp_weakens, H. Qed.

(* --- conversions, and claims in their own measure --------------------------------------------- *)

Theorem square_to_gdp s mu n : 0 < mu -> s = mu * mu -> private (of_gdp s 0) n -> private (gdp mu) n.
Proof.
  intros Hm E H X P Q R. apply H in R. subst s. apply gdp_of_square in R; [|nra].
  rewrite sqrt_square in R; [exact R|lra].
Qed.

Theorem gdp_to_approx_at s e d n : 0 < s -> normal_profile (sqrt s) e d ->
  private (of_gdp s 0) n -> private (approx e d) n.
Proof. intros Hs Hd H X P Q R. apply H, gdp_of_square in R; [|assumption]. apply (R e d Hd). Qed.

Theorem within_gdp_to_approx_at s p e d n : 0 < s ->
  normal_profile (sqrt s) e (d - p * (1 + exp e)) ->
  private (within of_gdp s p) n -> private (approx e d) n.
Proof.
  intros Hs Hd H X P Q R. apply H in R.
  replace d with (d - p * (1 + exp e) + p * (1 + exp e)) by ring.
  apply slack_approx. destruct R as (L & K & HL & HK & R). exists L, K. split; [exact HL|].
  split; [exact HK|]. apply gdp_of_square in R; [|assumption]. apply (R e), Hd.
Qed.

Theorem zcdp_to_approx_at rho a e d n : 1 < a -> 0 < d ->
  rho * a + ln (1 - 1 / a) - (ln d + ln a) / (a - 1) <= e ->
  private (of_zcdp rho 0) n -> private (approx e d) n.
Proof. intros Ha Hd He H X P Q R. apply (zcdp_to_approx X P Q a rho); auto. apply H, R. Qed.

Theorem renyi_to_approx_at r a e d n : 1 < a -> 0 < d ->
  r + ln (1 - 1 / a) - (ln d + ln a) / (a - 1) <= e ->
  private (of_renyi a r 0) n -> private (approx e d) n.
Proof. intros Ha Hd He H X P Q R. apply (renyi_to_approx X P Q a r); auto. apply H, R. Qed.
