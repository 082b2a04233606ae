(* Composition, weakening and conversions, for any outcomes: every theorem here ends in Qed. *)

Require Import Reals Lra.
From Coquelicot Require Import Coquelicot.
From DPAudit Require Import Laws.
Open Scope R_scope.

(* R is the law of pair x y, x drawn from P and then y from the law K x: the second release may
   depend on the first, and pair may forget or transform either (post-processing). *)
Record joined (X Y Z : space) (pair : X -> Y -> Z) (P : law X) (K : X -> law Y) (R : law Z) : Prop :=
  Joined {
    joined_section : forall f, test Z f -> forall x, test Y (fun y => f (pair x y));
    joined_mean : forall f, test Z f -> test X (fun x => K x (fun y => f (pair x y)));
    joined_value : forall f, test Z f -> R f = P (fun x => K x (fun y => f (pair x y)))
  }.

Section Then.
Variables (X Y Z : space) (pair : X -> Y -> Z).
Variables (P P' : law X) (K K' : X -> law Y) (R R' : law Z).
Hypothesis J : joined X Y Z pair P K R.
Hypothesis J' : joined X Y Z pair P' K' R'.

(* Dwork, Kenthapadi, McSherry, Mironov, Naor 2006, Theorem 1. *)
Theorem approx_then e d e' d' : 0 <= d -> 0 <= d' ->
  approx e d X P P' -> (forall x, approx e' d' Y (K x) (K' x)) -> approx (e + e') (d + d') Z R R'.
Proof.
  intros Hd Hd' HP HK f Hf.
  rewrite (joined_value _ _ _ _ _ _ _ J f Hf), (joined_value _ _ _ _ _ _ _ J' f Hf).
  set (g := fun x => K x (fun y => f (pair x y))). set (g' := fun x => K' x (fun y => f (pair x y))).
  assert (Tg : test X g) by exact (joined_mean _ _ _ _ _ _ _ J f Hf).
  assert (Tg' : test X g') by exact (joined_mean _ _ _ _ _ _ _ J' f Hf).
  pose proof (exp_pos e). pose proof (exp_pos e').
  (* The second release's bound, cut at 1. *)
  set (h := fun x => Rmin 1 (exp e' * g' x)).
  assert (Th : test X h).
  { apply (test_rising X (fun t => Rmin 1 (exp e' * t))); auto. split.
    - intros s t H1 H2 H3. apply Rle_min_compat_l. nra.
    - intros t H1. split. apply Rmin_glb; nra. apply Rmin_l. }
  assert (A : P g <= P h + d').
  { rewrite <- (Rmult_1_l (P h)). apply mean_affine; auto; try lra. intro x. unfold h.
    assert (g x <= exp e' * g' x + d').
    { exact (HK x _ (joined_section _ _ _ _ _ _ _ J f Hf x)). }
    pose proof (test_range X g Tg x). unfold Rmin. destruct (Rle_dec 1 (exp e' * g' x)); lra. }
  assert (B : P' h <= exp e' * P' g').
  { rewrite <- (Rplus_0_r (exp e' * P' g')). apply mean_affine; auto; try lra.
    intro x. unfold h. pose proof (Rmin_r 1 (exp e' * g' x)). lra. }
  pose proof (HP h Th). rewrite exp_plus. nra.
Qed.

(* Mironov 2017, Proposition 1. *)
Theorem renyi_then a r r' : 1 < a ->
  renyi a r X P P' -> (forall x, renyi a r' Y (K x) (K' x)) -> renyi a (r + r') Z R R'.
Proof.
  intros Ha HP HK f Hf. set (b := a / (a - 1)).
  assert (Hb : 0 < b) by (unfold b; apply Rdiv_lt_0_compat; lra).
  assert (Tf : test Z (fun z => power (f z) b)) by (apply test_power; assumption).
  rewrite (joined_value _ _ _ _ _ _ _ J f Hf), (joined_value _ _ _ _ _ _ _ J' _ Tf).
  set (g := fun x => K x (fun y => f (pair x y))).
  set (g' := fun x => K' x (fun y => power (f (pair x y)) b)).
  assert (Tg : test X g) by exact (joined_mean _ _ _ _ _ _ _ J f Hf).
  assert (Tg' : test X g') by exact (joined_mean _ _ _ _ _ _ _ J' _ Tf).
  assert (A : forall x, power (g x) b <= exp r' * g' x + 0).
  { intro x. pose proof (HK x _ (joined_section _ _ _ _ _ _ _ J f Hf x)) as H.
    fold b in H. change (power (g x) a <= exp ((a - 1) * r') * power (g' x) (a - 1)) in H.
    apply (power_le _ _ (1 / (a - 1))) in H; [|apply Rdiv_lt_0_compat; lra].
    rewrite power_power, power_scaled, power_power in H.
    replace (a * (1 / (a - 1))) with b in H by (unfold b; field; lra).
    replace (1 / (a - 1) * ((a - 1) * r')) with r' in H by (field; lra).
    replace ((a - 1) * (1 / (a - 1))) with 1 in H by (field; lra).
    rewrite power_one in H by (apply (test_range X g' Tg')). lra. }
  assert (B : P' (fun x => power (g x) b) <= exp r' * P' g' + 0).
  { pose proof (exp_pos r'). apply mean_affine; auto; try lra. apply test_power; assumption. }
  pose proof (HP g Tg) as H. fold b in H.
  assert (C : power (P' (fun x => power (g x) b)) (a - 1) <= power (exp r' * P' g') (a - 1)).
  { apply power_le; lra. }
  rewrite power_scaled in C. rewrite Rmult_plus_distr_l, exp_plus, Rmult_assoc.
  eapply Rle_trans. exact H. apply Rmult_le_compat_l. apply Rlt_le, exp_pos. exact C.
Qed.

(* Bun, Steinke 2016, Lemma 2.3. *)
Theorem zcdp_then r r' :
  zcdp r X P P' -> (forall x, zcdp r' Y (K x) (K' x)) -> zcdp (r + r') Z R R'.
Proof.
  intros HP HK a Ha. rewrite Rmult_plus_distr_r. apply renyi_then; auto. intro x. apply HK, Ha.
Qed.

End Then.

(* --- weakening -------------------------------------------------------------------------------- *)

Section Weaken.
Variables (X : space) (P Q : law X).

Theorem approx_weaken e d e' d' : e <= e' -> d <= d' -> approx e d X P Q -> approx e' d' X P Q.
Proof.
  intros He Hd H f Hf. pose proof (H f Hf). pose proof (exp_le e e' He).
  pose proof (mean_range X Q f Hf). nra.
Qed.

Theorem renyi_weaken a r r' : 1 < a -> r <= r' -> renyi a r X P Q -> renyi a r' X P Q.
Proof.
  intros Ha Hr H f Hf. eapply Rle_trans. apply H, Hf. apply Rmult_le_compat_r. apply power_nonneg.
  apply exp_le. nra.
Qed.

Theorem zcdp_weaken r r' : r <= r' -> zcdp r X P Q -> zcdp r' X P Q.
Proof. intros Hr H a Ha. apply (renyi_weaken a (r * a)); auto. nra. Qed.

End Weaken.

(* --- a law and itself ------------------------------------------------------------------------- *)

Definition same (X : space) (P Q : law X) : Prop := forall f, test X f -> P f = Q f.

Section Same.
Variables (X : space) (P Q : law X).
Hypothesis S : same X P Q.

Theorem approx_same e d : 0 <= e -> 0 <= d -> approx e d X P Q.
Proof.
  intros He Hd f Hf. rewrite (S f Hf). pose proof (mean_range X Q f Hf).
  pose proof (exp_le 0 e He). rewrite exp_0 in *. nra.
Qed.

(* Jensen's inequality at one point: P f <= (P f^b)^(1/b). *)
Lemma mean_power b f : 1 < b -> test X f -> power (Q f) b <= Q (fun x => power (f x) b).
Proof.
  intros Hb Hf. pose proof (mean_range X Q f Hf) as [[Hm|Hm] Hm1].
  2: { rewrite <- Hm, power_zero. apply mean_range, test_power; [lra|assumption]. }
  set (m := Q f) in *.
  assert (Tp : test X (fun x => power (f x) b)) by (apply test_power; [lra|assumption]).
  set (c := power m b). assert (Hc : 0 < c).
  { unfold c. rewrite power_positive by assumption. apply exp_pos. }
  (* The tangent at m: m^b (1 + b (t / m - 1)) <= t^b. *)
  assert (T : forall t, 0 <= t -> b / m * t <= 1 / c * power t b + (b - 1)).
  { intros t [Ht|<-]. 2: { rewrite power_zero. lra. }
    unfold c. rewrite !power_positive by assumption. set (u := ln t - ln m).
    assert (Et : t = m * exp u).
    { unfold u, Rminus. rewrite exp_plus, exp_ln, exp_Ropp, exp_ln by assumption. field. lra. }
    replace (b / m * t) with (b * exp u) by (rewrite Et at 1; field; lra).
    replace (1 / exp (b * ln m) * exp (b * ln t)) with (exp (b * u)).
    2: { replace (b * ln t) with (b * u + b * ln m) by (unfold u; ring). rewrite exp_plus. field.
         apply Rgt_not_eq, exp_pos. }
    (* exp (b u) >= exp u (1 + (b - 1) u), and exp (- u) >= 1 - u. *)
    pose proof (exp_ineq1_le ((b - 1) * u)) as A. pose proof (exp_ineq1_le (- u)) as B.
    replace (b * u) with (u + (b - 1) * u) by ring. rewrite exp_plus. pose proof (exp_pos u) as E.
    assert (F : exp (- u) * exp u = 1) by (rewrite <- exp_plus, Rplus_opp_l; apply exp_0).
    apply (Rmult_le_compat_r (exp u)) in A; [|lra]. apply (Rmult_le_compat_r (exp u)) in B; [|lra].
    rewrite F in B. apply (Rmult_le_compat_l (b - 1)) in B; [|lra]. lra. }
  assert (b / m * m <= 1 / c * Q (fun x => power (f x) b) + (b - 1)).
  { assert (L : Q f <= m / b * (1 / c) * Q (fun x => power (f x) b) + m / b * (b - 1)).
    { apply mean_affine; auto.
      - apply Rmult_le_pos. apply Rlt_le, Rdiv_lt_0_compat; lra.
        apply Rlt_le, Rdiv_lt_0_compat; lra.
      - apply Rmult_le_pos. apply Rlt_le, Rdiv_lt_0_compat; lra. lra.
      - intro x. pose proof (T (f x) (proj1 (test_range X f Hf x))) as H.
        apply (Rmult_le_compat_l (m / b)) in H; [|apply Rlt_le, Rdiv_lt_0_compat; lra].
        replace (m / b * (b / m * f x)) with (f x) in H by (field; lra). lra. }
    fold m in L. apply (Rmult_le_compat_l (b / m)) in L; [|apply Rlt_le, Rdiv_lt_0_compat; lra].
    replace (b / m * (m / b * (1 / c) * Q (fun x => power (f x) b) + m / b * (b - 1)))
      with (1 / c * Q (fun x => power (f x) b) + (b - 1)) in L by (field; lra). exact L. }
  replace (b / m * m) with b in H by (field; lra).
  assert (1 <= 1 / c * Q (fun x => power (f x) b)) by lra.
  apply (Rmult_le_compat_l c) in H0; [|lra]. field_simplify in H0; lra.
Qed.

Theorem renyi_same a r : 1 < a -> 0 <= r -> renyi a r X P Q.
Proof.
  intros Ha Hr f Hf. rewrite (S f Hf). set (b := a / (a - 1)).
  assert (Hb : 1 < b). { unfold b. apply (Rmult_lt_reg_r (a - 1)); [lra|]. field_simplify; lra. }
  pose proof (mean_power b f Hb Hf) as H. apply (power_le _ _ (a - 1)) in H; [|lra].
  rewrite power_power in H. replace (b * (a - 1)) with a in H by (unfold b; field; lra).
  pose proof (exp_le 0 ((a - 1) * r) ltac:(nra)) as E. rewrite exp_0 in E.
  pose proof (power_nonneg (Q (fun x => power (f x) b)) (a - 1)). nra.
Qed.

Theorem zcdp_same r : 0 <= r -> zcdp r X P Q.
Proof. intros Hr a Ha. apply renyi_same; auto. nra. Qed.

End Same.

(* --- conversions ------------------------------------------------------------------------------ *)

Section Convert.
Variables (X : space) (P Q : law X).

(* Canonne, Kamath, Steinke 2020, Proposition 12. *)
Theorem renyi_to_approx a r e d : 1 < a -> 0 < d ->
  r + ln (1 - 1 / a) - (ln d + ln a) / (a - 1) <= e -> renyi a r X P Q -> approx e d X P Q.
Proof.
  intros Ha Hd He H f Hf. pose proof (mean_range X P f Hf) as [[Hp|Hp] _].
  2: { rewrite <- Hp. pose proof (exp_pos e). pose proof (mean_range X Q f Hf). nra. }
  set (t := (a - 1) / a).
  assert (Ht : 0 < t) by (unfold t; apply Rdiv_lt_0_compat; lra).
  assert (Et : 1 - 1 / a = t) by (unfold t; field; lra). rewrite Et in He.
  assert (Ht1 : 1 - t = / a) by (unfold t; field; lra).
  set (b := a / (a - 1)).
  assert (Hb : 1 <= b). { unfold b. apply (Rmult_le_reg_r (a - 1)); [lra|]. field_simplify; lra. }
  pose proof (H f Hf) as A. fold b in A.
  assert (Tb : test X (fun x => power (f x) b)) by (apply test_power; [lra|assumption]).
  assert (B : Q (fun x => power (f x) b) <= Q f).
  { apply mean_order; auto. intro x. apply power_below; [lra|]. apply (test_range X f Hf). }
  apply (power_le _ _ (a - 1)) in B; [|lra].
  assert (C : power (P f) a <= exp ((a - 1) * r) * power (Q f) (a - 1)).
  { eapply Rle_trans. exact A. apply Rmult_le_compat_l. apply Rlt_le, exp_pos. exact B. }
  pose proof (mean_range X Q f Hf) as [[Hq|Hq] _].
  2: { rewrite <- Hq, power_zero, Rmult_0_r in C. rewrite power_positive in C by lra.
       pose proof (exp_pos (a * ln (P f))). lra. }
  apply (power_le _ _ (/ a)) in C; [|apply Rinv_0_lt_compat; lra].
  rewrite power_power, power_scaled, power_power in C.
  replace (a * / a) with 1 in C by (field; lra). rewrite power_one in C by lra.
  replace (/ a * ((a - 1) * r)) with (t * r) in C by (unfold t; field; lra).
  replace ((a - 1) * / a) with t in C by (unfold t; field; lra).
  rewrite power_positive, <- exp_plus in C by lra. eapply Rle_trans. exact C.
  (* The weighted mean of two exponentials is above the exponential of the mean. *)
  set (u := e + ln (Q f) - ln t). set (v := ln d + ln a). set (m := t * u + (1 - t) * v).
  assert (M : t * r + t * ln (Q f) <= m).
  { unfold m, u, v. rewrite Ht1.
    apply (Rmult_le_compat_l t) in He; [|lra].
    replace (t * (r + ln t - (ln d + ln a) / (a - 1))) with
      (t * r + t * ln t - / a * (ln d + ln a)) in He by (unfold t; field; lra). lra. }
  apply exp_le in M. eapply Rle_trans. exact M.
  assert (U : exp e * Q f = t * exp u).
  { unfold u, Rminus. rewrite !exp_plus, exp_Ropp, !exp_ln by assumption. field. lra. }
  assert (V : d = (1 - t) * exp v).
  { unfold v. rewrite exp_plus, !exp_ln, Ht1 by lra. field. lra. }
  rewrite U, V at 1.
  pose proof (exp_ineq1_le (u - m)) as D. pose proof (exp_ineq1_le (v - m)) as F.
  assert (Eu : exp u = exp m * exp (u - m)) by (rewrite <- exp_plus; f_equal; ring).
  assert (Ev : exp v = exp m * exp (v - m)) by (rewrite <- exp_plus; f_equal; ring).
  rewrite Eu, Ev. pose proof (exp_pos m) as E.
  assert (Hm : t * (u - m) + (1 - t) * (v - m) = 0) by (unfold m; ring).
  assert (0 < 1 - t) by (rewrite Ht1; apply Rinv_0_lt_compat; lra).
  assert (1 <= t * exp (u - m) + (1 - t) * exp (v - m)) by nra. nra.
Qed.

Theorem zcdp_to_approx a rho e d : 1 < a -> 0 < d ->
  rho * a + ln (1 - 1 / a) - (ln d + ln a) / (a - 1) <= e -> zcdp rho X P Q -> approx e d X P Q.
Proof. intros Ha Hd He H. apply (renyi_to_approx a (rho * a)); auto. Qed.

Theorem gdp_to_approx mu e d : normal_profile mu e d -> gdp mu X P Q -> approx e d X P Q.
Proof. intros Hn H. apply H, Hn. Qed.

End Convert.
