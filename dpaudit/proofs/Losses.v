(* Discrete losses on a grid: what dominates a release at the grid's nodes dominates it everywhere,
   and the convolution of two dominates their composition.  No hypothesis. *)

Require Import Reals ZArith Lra Lia.
From Bignums Require Import BigN.
From DPAudit Require Import Laws Composition Nodes.
Require Import List.
Import ListNotations.
Open Scope R_scope.

(* Masses at the losses first w, (first + 1) w, ..., and at an infinite loss. *)
Record losses : Type := Losses { first : Z; masses : list R; infinite : R }.

Definition gain (w : R) (l : Z) (e : R) : R := Rmax 0 (1 - exp (e - IZR l * w)).

Fixpoint above (w : R) (l : Z) (ms : list R) (e : R) : R :=
  match ms with [] => 0 | m :: rest => m * gain w l e + above w (l + 1) rest e end.

(* The hockey-stick divergence at e. *)
Definition curve (w : R) (A : losses) (e : R) : R := infinite A + above w (first A) (masses A) e.

Definition dominated (w : R) (A : losses) : measure := fun X P Q => forall e, approx e (curve w A e) X P Q.

Fixpoint mass_of (ms : list R) : R := match ms with [] => 0 | m :: rest => m + mass_of rest end.

(* The same masses under the other law. *)
Fixpoint other_of (w : R) (l : Z) (ms : list R) : R :=
  match ms with [] => 0 | m :: rest => m * exp (- (IZR l * w)) + other_of w (l + 1) rest end.

Definition positive_masses (ms : list R) : Prop := Forall (fun m => 0 <= m) ms.

Definition whole_losses (A : losses) : Prop :=
  positive_masses (masses A) /\ 0 <= infinite A /\ 1 <= infinite A + mass_of (masses A).

Section Grid.
Variable w : R.
Hypothesis Hw : 0 < w.

Lemma loss_rises l : IZR l * w <= IZR (l + 1) * w.
Proof. rewrite plus_IZR. nra. Qed.

Lemma gain_nonneg l e : 0 <= gain w l e.
Proof. apply Rmax_l. Qed.

Lemma gain_zero l e : IZR l * w <= e -> gain w l e = 0.
Proof.
  intro H. unfold gain. apply Rmax_left. pose proof (exp_le 0 (e - IZR l * w)) as G.
  rewrite exp_0 in G. lra.
Qed.

Lemma gain_full l e : e <= IZR l * w -> gain w l e = 1 - exp e * exp (- (IZR l * w)).
Proof.
  intro H. unfold gain. rewrite <- exp_plus. apply Rmax_right.
  assert (exp (e + - (IZR l * w)) <= 1) by (rewrite <- exp_0; apply exp_le; lra). lra.
Qed.

Lemma above_nonneg ms l e : positive_masses ms -> 0 <= above w l ms e.
Proof.
  intro H. revert l. induction H as [|m ms Hm _ IH]; intro l; simpl; [lra|].
  pose proof (gain_nonneg l e). specialize (IH (l + 1)%Z). nra.
Qed.

Lemma above_full ms : forall l e, e <= IZR l * w ->
  above w l ms e = mass_of ms - exp e * other_of w l ms.
Proof.
  induction ms as [|m ms IH]; intros l e H; simpl; [ring|].
  rewrite gain_full, (IH (l + 1)%Z) by (pose proof (loss_rises l); lra). ring.
Qed.

(* --- from the nodes to everywhere ------------------------------------------------------------- *)

Lemma between (a b c d s t x : R) : s <= x <= t -> a <= s * b + (c - s * d) ->
  a <= t * b + (c - t * d) -> a <= x * b + (c - x * d).
Proof. intros [H1 H2] S T. destruct (Rle_lt_dec d b); nra. Qed.

Lemma between_nodes X (P Q : law X) inf ms : forall l,
  (forall k, (k <= length ms)%nat -> approx (IZR (l + Z.of_nat k) * w)
    (inf + above w l ms (IZR (l + Z.of_nat k) * w)) X P Q) ->
  forall e, IZR l * w <= e -> approx e (inf + above w l ms e) X P Q.
Proof.
  induction ms as [|m ms IH]; intros l H e He.
  - specialize (H 0%nat (Nat.le_refl _)). rewrite Z.add_0_r in H. simpl in *.
    revert H. apply approx_weaken; lra.
  - assert (E : forall t, IZR l * w <= t -> above w l (m :: ms) t = above w (l + 1) ms t).
    { intros t Ht. simpl. rewrite gain_zero by exact Ht. ring. }
    rewrite E by exact He. destruct (Rle_lt_dec (IZR (l + 1) * w) e) as [L|L].
    + apply IH; [|exact L]. intros k Hk. specialize (H (S k)).
      replace (l + Z.of_nat (S k))%Z with (l + 1 + Z.of_nat k)%Z in H by lia.
      rewrite E in H. apply H. simpl; lia.
      assert (IZR l <= IZR (l + 1 + Z.of_nat k)) by (apply IZR_le; lia). nra.
    + intros f Hf.
      pose proof (H 0%nat (Nat.le_0_l _) f Hf) as H0. pose proof (H 1%nat) as H1.
      specialize (H1 ltac:(simpl; lia) f Hf).
      replace (l + Z.of_nat 0)%Z with l in H0 by lia. replace (l + Z.of_nat 1)%Z with (l + 1)%Z in H1 by lia.
      pose proof (loss_rises l). rewrite E in H0, H1 by lra.
      rewrite above_full in * by lra.
      pose proof (exp_le _ _ He). pose proof (exp_le e (IZR (l + 1) * w)).
      set (N := other_of w (l + 1) ms) in *. set (M := mass_of ms) in *.
      replace (exp e * Q f + (inf + (M - exp e * N))) with (exp e * Q f + ((inf + M) - exp e * N)) by ring.
      apply (between (P f) (Q f) (inf + M) N (exp (IZR l * w)) (exp (IZR (l + 1) * w)) (exp e)); lra.
Qed.

(* Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect-the-dots): chords dominate. *)
Theorem by_nodes X (P Q : law X) A : whole_losses A ->
  (forall k, (k <= length (masses A))%nat -> approx (IZR (first A + Z.of_nat k) * w)
    (curve w A (IZR (first A + Z.of_nat k) * w)) X P Q) ->
  dominated w A X P Q.
Proof.
  intros (Pos & Hi & One) H e. destruct (Rle_lt_dec (IZR (first A) * w) e) as [L|L].
  - exact (between_nodes X P Q (infinite A) (masses A) (first A) H e L).
  - intros f Hf. specialize (H 0%nat (Nat.le_0_l _) f Hf). rewrite Z.add_0_r in H. unfold curve in *.
    rewrite above_full in * by lra. pose proof (mean_range X P f Hf). pose proof (exp_pos e).
    pose proof (exp_le e (IZR (first A) * w)).
    set (N := other_of w (first A) (masses A)) in *. set (M := mass_of (masses A)) in *.
    replace (exp e * Q f + (infinite A + (M - exp e * N)))
      with (exp e * Q f + ((infinite A + M) - exp e * N)) by ring.
    apply (between (P f) (Q f) (infinite A + M) N 0 (exp (IZR (first A) * w)) (exp e)); lra.
Qed.

(* --- composition ------------------------------------------------------------------------------ *)

(* How much of the mass m exp(-l w) is filled, when what lies above it is filled first. *)
Definition filled (l : Z) (m : R) (rest : list R) (u : R) : R :=
  if Rle_dec m 0 then 0
  else Rmax 0 (Rmin 1 ((u - other_of w (l + 1) rest) / (m * exp (- (IZR l * w))))).

Lemma filled_rising l m rest : rising (filled l m rest).
Proof.
  unfold filled. destruct (Rle_dec m 0) as [H|H]. { split; intros; lra. }
  assert (0 < m * exp (- (IZR l * w))) by (apply Rmult_lt_0_compat; [lra|apply exp_pos]).
  split; intros.
  - apply Rle_max_compat_l, Rle_min_compat_l. unfold Rdiv. apply Rmult_le_compat_r; [|lra].
    apply Rlt_le, Rinv_0_lt_compat. assumption.
  - split; [apply Rmax_l|]. apply Rmax_lub; [lra|apply Rmin_l].
Qed.

(* Coefficients with rising functions, and their sum. *)
Fixpoint combined (parts : list (R * (R -> R))) (t : R) : R :=
  match parts with [] => 0 | (c, phi) :: rest => c * phi t + combined rest t end.

Definition sound (parts : list (R * (R -> R))) : Prop :=
  Forall (fun part => 0 <= fst part /\ rising (snd part)) parts.

Definition coefficients (parts : list (R * (R -> R))) : R := mass_of (map fst parts).

Lemma combined_range parts t : sound parts -> 0 <= t <= 1 -> 0 <= combined parts t <= coefficients parts.
Proof.
  intros H Ht. unfold coefficients. induction H as [|[c phi] parts [Hc [_ Hr]] _ IH]; simpl in *; [lra|].
  specialize (Hr t Ht). nra.
Qed.

Lemma combined_rising parts s : sound parts -> 0 < s -> coefficients parts <= s ->
  rising (fun t => combined parts t / s).
Proof.
  intros H Hs Hc. split.
  - intros a b Ha Hab Hb. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, Hs|].
    clear Hc. induction H as [|[c phi] parts [H0 [Hr _]] _ IH]; simpl in *; [lra|].
    specialize (Hr a b Ha Hab Hb). nra.
  - intros t Ht. pose proof (combined_range parts t H Ht). split.
    + apply Rle_mult_inv_pos; lra.
    + apply (Rmult_le_reg_r s); [exact Hs|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

Fixpoint means (X : space) (P : law X) (u : X -> R) (parts : list (R * (R -> R))) : R :=
  match parts with [] => 0 | (c, phi) :: rest => c * P (fun x => phi (u x)) + means X P u rest end.

Lemma combined_mean X (P : law X) u parts s : test X u -> sound parts -> 0 < s -> coefficients parts <= s ->
  P (fun x => combined parts (u x) / s) = means X P u parts / s.
Proof.
  intros Hu H Hs. unfold coefficients. induction H as [|[c phi] parts [Hc Hr] Hp IH]; intro C; simpl in *.
  - unfold Rdiv at 1. rewrite Rmult_0_l. rewrite mean_constant by lra. unfold Rdiv. ring.
  - assert (N : 0 <= coefficients parts).
    { clear -Hp. unfold coefficients. induction Hp as [|[d psi] parts [Hd _] _ IH]; simpl in *; lra. }
    unfold coefficients in N.
    assert (T1 : test X (fun x => phi (u x))) by (apply test_rising; assumption).
    assert (T2 : test X (fun x => combined parts (u x) / s)).
    { apply (test_rising X (fun t => combined parts t / s)); [|assumption].
      apply combined_rising; auto. unfold coefficients. lra. }
    assert (Eq : (fun x => (c * phi (u x) + combined parts (u x)) / s)
      = (fun x => c / s * phi (u x) + 1 * (combined parts (u x) / s))).
    { apply FunctionalExtensionality.functional_extensionality. intro. field. lra. }
    rewrite Eq, (mean_linear X P (c / s) 1 _ _ T1 T2).
    + rewrite IH by lra. field. lra.
    + rewrite <- Eq. apply (test_rising X (fun t => combined ((c, phi) :: parts) t / s)); [|assumption].
      apply combined_rising; auto. constructor; auto.
Qed.

(* The masses of A's other law and its own, each with how far it is filled. *)
Fixpoint own_parts (l : Z) (ms : list R) : list (R * (R -> R)) :=
  match ms with [] => [] | m :: rest => (m, filled l m rest) :: own_parts (l + 1) rest end.

Fixpoint other_parts (l : Z) (ms : list R) : list (R * (R -> R)) :=
  match ms with
  | [] => []
  | m :: rest => (m * exp (- (IZR l * w)), filled l m rest) :: other_parts (l + 1) rest
  end.

Lemma own_sound ms l : positive_masses ms -> sound (own_parts l ms).
Proof.
  intro H. revert l. induction H as [|m ms Hm _ IH]; intro l; simpl; constructor; simpl; [|apply IH].
  split; [assumption|apply filled_rising].
Qed.

Lemma other_sound ms l : positive_masses ms -> sound (other_parts l ms).
Proof.
  intro H. revert l. induction H as [|m ms Hm _ IH]; intro l; simpl; constructor; simpl; [|apply IH].
  split; [|apply filled_rising]. apply Rmult_le_pos; [assumption|apply Rlt_le, exp_pos].
Qed.

Lemma other_nonneg ms l : positive_masses ms -> 0 <= other_of w l ms.
Proof.
  intro H. revert l. induction H as [|m ms Hm _ IH]; intro l; simpl; [lra|].
  specialize (IH (l + 1)%Z). pose proof (exp_pos (- (IZR l * w))). nra.
Qed.

Lemma fills ms l u : positive_masses ms -> 0 <= u ->
  combined (other_parts l ms) u = Rmin u (other_of w l ms).
Proof.
  intros H Hu. revert l. induction H as [|m ms Hm Hp IH]; intro l; simpl.
  { rewrite Rmin_right; lra. }
  rewrite IH. pose proof (other_nonneg ms (l + 1) Hp) as N. unfold filled.
  destruct (Rle_dec m 0) as [Z|Z].
  { replace (m * exp (- (IZR l * w)) + other_of w (l + 1) ms) with (other_of w (l + 1) ms)
      by (replace m with 0 by lra; ring). ring. }
  set (n := m * exp (- (IZR l * w))). set (r := other_of w (l + 1) ms) in *.
  assert (Hn : 0 < n) by (apply Rmult_lt_0_compat; [lra|apply exp_pos]).
  destruct (Rle_lt_dec u r) as [A|A].
  - rewrite (Rmin_left u r A), (Rmin_left u (n + r)) by lra.
    rewrite (Rmax_left 0); [ring|]. eapply Rle_trans; [apply Rmin_r|].
    apply (Rmult_le_reg_r n); [exact Hn|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
  - rewrite (Rmin_right u r) by lra. destruct (Rle_lt_dec u (n + r)) as [B|B].
    + rewrite (Rmin_left u (n + r)) by lra. rewrite (Rmin_right 1), Rmax_right.
      * field. lra.
      * apply Rle_mult_inv_pos; lra.
      * apply (Rmult_le_reg_r n); [exact Hn|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
    + rewrite (Rmin_right u (n + r)) by lra. rewrite (Rmin_left 1), Rmax_right; try lra.
      apply (Rmult_le_reg_r n); [exact Hn|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

Lemma full ms l u : positive_masses ms -> other_of w l ms <= u -> combined (own_parts l ms) u = mass_of ms.
Proof.
  intros H. revert l. induction H as [|m ms Hm Hp IH]; intros l Hu; simpl in *; [reflexivity|].
  pose proof (exp_pos (- (IZR l * w))).
  rewrite IH by nra. unfold filled. destruct (Rle_dec m 0) as [Z|Z]. { replace m with 0 by lra. ring. }
  set (n := m * exp (- (IZR l * w))) in *.
  assert (Hn : 0 < n) by (apply Rmult_lt_0_compat; lra).
  rewrite (Rmin_left 1), Rmax_right; try lra.
  apply (Rmult_le_reg_r n); [exact Hn|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(* At some e the line of the curve is below what is filled. *)
Lemma touches ms : forall l u, positive_masses ms -> 0 <= u -> u < other_of w l ms ->
  exists e, IZR l * w <= e /\ exp e * u + above w l ms e <= combined (own_parts l ms) u.
Proof.
  induction ms as [|m ms IH]; intros l u H Hu L; simpl in *; [lra|].
  inversion H as [|? ? Hm Hp]; subst.
  destruct (Rle_lt_dec (other_of w (l + 1) ms) u) as [A|A].
  - exists (IZR l * w). split; [lra|]. rewrite (gain_zero l) by lra.
    rewrite above_full by apply loss_rises. rewrite (full ms (l + 1) u Hp A). unfold filled.
    set (r := other_of w (l + 1) ms) in *. pose proof (exp_pos (- (IZR l * w))) as E.
    destruct (Rle_dec m 0) as [Z|Z]. { exfalso. replace m with 0 in L by lra. lra. }
    assert (Hn : 0 < m * exp (- (IZR l * w))) by (apply Rmult_lt_0_compat; lra).
    rewrite (Rmin_right 1), Rmax_right.
    + rewrite exp_Ropp in *. pose proof (exp_pos (IZR l * w)). field_simplify; lra.
    + apply Rle_mult_inv_pos; lra.
    + apply (Rmult_le_reg_r (m * exp (- (IZR l * w)))); [exact Hn|].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
  - destruct (IH (l + 1)%Z u Hp Hu A) as (e & He & T). pose proof (loss_rises l).
    exists e. split; [lra|]. rewrite (gain_zero l) by lra.
    destruct (filled_rising l m ms) as [_ R]. unfold filled in *.
    destruct (Rle_dec m 0); [lra|].
    assert (0 <= m * Rmax 0 (Rmin 1 ((u - other_of w (l + 1) ms) / (m * exp (- (IZR l * w)))))).
    { apply Rmult_le_pos; [exact Hm|apply Rmax_l]. } lra.
Qed.

(* The curve of one after the other. *)
Fixpoint after (A : losses) (l : Z) (ms : list R) (e : R) : R :=
  match ms with [] => 0 | m :: rest => m * curve w A (e - IZR l * w) + after A (l + 1) rest e end.

Lemma means_step (X : space) (P Q : law X) u A e : test X u -> dominated w A X P Q ->
  forall ms l, positive_masses ms ->
  means X P u (own_parts l ms) <= exp e * means X Q u (other_parts l ms) + after A l ms e.
Proof.
  intros Hu D ms. induction ms as [|m ms IH]; intros l H; simpl; [lra|].
  inversion H as [|? ? Hm Hp]; subst. specialize (IH (l + 1)%Z Hp).
  assert (T : test X (fun x => filled l m ms (u x))) by (apply test_rising; [apply filled_rising|exact Hu]).
  pose proof (D (e - IZR l * w) _ T) as S. unfold Rminus at 1 in S. rewrite exp_plus in S.
  apply (Rmult_le_compat_l m) in S; [|exact Hm]. lra.
Qed.

(* Zhu, Dong, Wang 2022, Theorem 10: dominating pairs compose. *)
Theorem composition X Y Z pair (P P' : law X) (K K' : X -> law Y) (R R' : law Z) A B :
  joined X Y Z pair P K R -> joined X Y Z pair P' K' R' -> whole_losses B ->
  dominated w A X P P' -> (forall x, dominated w B Y (K x) (K' x)) ->
  forall e, approx e (infinite B + after A (first B) (masses B) e) Z R R'.
Proof.
  intros J J' (Pos & Hi & One) HA HB e f Hf.
  rewrite (joined_value _ _ _ _ _ _ _ J f Hf), (joined_value _ _ _ _ _ _ _ J' f Hf).
  set (v := fun x => K x (fun y => f (pair x y))). set (u := fun x => K' x (fun y => f (pair x y))).
  assert (Tv : test X v) by exact (joined_mean _ _ _ _ _ _ _ J f Hf).
  assert (Tu : test X u) by exact (joined_mean _ _ _ _ _ _ _ J' f Hf).
  set (ms := masses B) in *. set (l := first B).
  pose proof (own_sound ms l Pos) as So. pose proof (other_sound ms l Pos) as Sn.
  set (s := Rmax 1 (coefficients (own_parts l ms))). set (t := Rmax 1 (coefficients (other_parts l ms))).
  assert (Hs : 0 < s) by (pose proof (Rmax_l 1 (coefficients (own_parts l ms))); unfold s; lra).
  assert (Ht : 0 < t) by (pose proof (Rmax_l 1 (coefficients (other_parts l ms))); unfold t; lra).
  assert (Cs : coefficients (own_parts l ms) <= s) by apply Rmax_r.
  assert (Ct : coefficients (other_parts l ms) <= t) by apply Rmax_r.
  assert (U : P v <= s * P (fun x => combined (own_parts l ms) (u x) / s) + infinite B).
  { apply mean_affine; auto; try lra.
    - apply (test_rising X (fun a => combined (own_parts l ms) a / s)); auto. apply combined_rising; auto.
    - intro x. replace (s * (combined (own_parts l ms) (u x) / s)) with (combined (own_parts l ms) (u x))
        by (field; lra).
      pose proof (test_range X u Tu x) as Ru. pose proof (test_range X v Tv x) as Rv.
      destruct (Rle_lt_dec (other_of w l ms) (u x)) as [L|L].
      + rewrite (full ms l (u x) Pos L). lra.
      + destruct (touches ms l (u x) Pos (proj1 Ru) L) as (e' & _ & T).
        pose proof (HB x e' _ (joined_section _ _ _ _ _ _ _ J f Hf x)) as H. fold (v x) in H.
        fold (u x) in H. unfold curve in H. fold ms in H. fold l in H. lra. }
  rewrite (combined_mean X P u _ s Tu So Hs Cs) in U.
  assert (V : P' (fun x => combined (other_parts l ms) (u x) / t) <= 1 / t * P' u + 0).
  { apply mean_affine; auto; try lra.
    - apply Rle_mult_inv_pos; lra.
    - apply (test_rising X (fun a => combined (other_parts l ms) a / t)); auto. apply combined_rising; auto.
    - intro x. pose proof (test_range X u Tu x) as Ru. rewrite (fills ms l (u x) Pos (proj1 Ru)).
      pose proof (Rmin_l (u x) (other_of w l ms)). rewrite Rplus_0_r. unfold Rdiv.
      rewrite Rmult_1_l, (Rmult_comm (/ t)). apply Rmult_le_compat_r; [|lra].
      apply Rlt_le, Rinv_0_lt_compat, Ht. }
  rewrite (combined_mean X P' u _ t Tu Sn Ht Ct) in V.
  pose proof (means_step X P P' u A e Tu HA ms l Pos) as W.
  replace (s * (means X P u (own_parts l ms) / s)) with (means X P u (own_parts l ms)) in U by (field; lra).
  apply (Rmult_le_compat_l t) in V; [|lra].
  replace (t * (means X P' u (other_parts l ms) / t)) with (means X P' u (other_parts l ms)) in V by (field; lra).
  replace (t * (1 / t * P' u + 0)) with (P' u) in V by (field; lra).
  pose proof (exp_pos e). pose proof (Rmult_le_compat_l (exp e) _ _ (Rlt_le _ _ H) V).
  change (P v <= exp e * P' u + (infinite B + after A l ms e)). lra.
Qed.

End Grid.

(* --- convolutions of whole numbers ------------------------------------------------------------ *)

Section Lists.
Variable T : Type.
Variables (zero : T) (plus times : T -> T -> T).

Fixpoint added (a b : list T) : list T :=
  match a, b with
  | [], _ => b
  | _, [] => a
  | x :: r, y :: s => plus x y :: added r s
  end.

Fixpoint convolved (a b : list T) : list T :=
  match b with [] => [] | y :: s => added (map (times y) a) (zero :: convolved a s) end.

End Lists.
Arguments added {T}. Arguments convolved {T}.

Definition real_convolved := convolved 0 Rplus Rmult.
Definition whole_convolved := convolved 0%Z Z.add Z.mul.

Section Grid.
Variable w : R.
Hypothesis Hw : 0 < w.

Lemma above_added a b : forall l e, above w l (added Rplus a b) e = above w l a e + above w l b e.
Proof.
  revert b. induction a as [|x a IH]; intros [|y b] l e; simpl; try ring. rewrite IH. ring.
Qed.

Lemma above_scaled c a : forall l e, above w l (map (Rmult c) a) e = c * above w l a e.
Proof. induction a as [|x a IH]; intros l e; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma above_moved a k : forall l e, above w (l + k) a e = above w l a (e - IZR k * w).
Proof.
  induction a as [|x a IH]; intros l e; simpl; [reflexivity|].
  replace (l + k + 1)%Z with (l + 1 + k)%Z by lia. rewrite IH. f_equal. f_equal. unfold gain.
  rewrite plus_IZR. f_equal. f_equal. f_equal. ring.
Qed.

Lemma above_convolved A b : forall l e,
  above w (first A + l) (real_convolved (masses A) b) e + infinite A * mass_of b = after w A l b e.
Proof.
  induction b as [|y b IH]; intros l e; [simpl; ring|].
  unfold real_convolved in *. cbn [convolved after mass_of]. rewrite above_added, above_scaled.
  cbn [above]. rewrite above_moved. specialize (IH (l + 1)%Z e).
  replace (first A + (l + 1))%Z with (first A + l + 1)%Z in IH by lia. rewrite <- IH. unfold curve. ring.
Qed.

End Grid.

(* Whole numbers in units of 1 / D. *)
Definition scaled (D : R) (zs : list Z) : list R := map (fun z => IZR z / D) zs.

Lemma scaled_added D a b : 0 < D -> scaled D (added Z.add a b) = added Rplus (scaled D a) (scaled D b).
Proof.
  intro H. revert b. induction a as [|x a IH]; intros [|y b]; simpl; auto.
  rewrite IH, plus_IZR. f_equal. field. lra.
Qed.

Lemma scaled_convolved D a b : 0 < D ->
  scaled (D * D) (whole_convolved a b) = real_convolved (scaled D a) (scaled D b).
Proof.
  intro H. induction b as [|y b IH]; [reflexivity|]. unfold whole_convolved, real_convolved in *.
  cbn [convolved]. rewrite scaled_added by nra. unfold scaled at 4. cbn [map convolved].
  change (map (fun z => IZR z / D) b) with (scaled D b). rewrite <- IH. f_equal.
  - unfold scaled. rewrite !map_map. apply map_ext. intro z. rewrite mult_IZR. field. lra.
  - unfold scaled at 1. cbn [map]. f_equal. field. lra.
Qed.

(* --- by one product of large numbers ---------------------------------------------------------- *)

Definition nonneg (zs : list Z) : Prop := List.Forall (fun z => (0 <= z)%Z) zs.

Fixpoint sum_of (zs : list Z) : Z := match zs with [] => 0%Z | z :: r => (z + sum_of r)%Z end.

Fixpoint value (base : Z) (zs : list Z) : Z :=
  match zs with [] => 0%Z | z :: r => (z + base * value base r)%Z end.

Lemma value_added base a b : value base (added Z.add a b) = (value base a + value base b)%Z.
Proof. revert b. induction a as [|x a IH]; intros [|y b]; simpl; try ring. rewrite IH. ring. Qed.

Lemma value_convolved base a b : value base (whole_convolved a b) = (value base a * value base b)%Z.
Proof.
  unfold whole_convolved. induction b as [|y b IH]; cbn [convolved]; [simpl; ring|].
  rewrite value_added. cbn [value]. rewrite IH.
  assert (E : value base (map (Z.mul y) a) = (y * value base a)%Z).
  { clear. induction a as [|x a IH]; simpl; [ring|]. rewrite IH. ring. }
  rewrite E. ring.
Qed.

Definition within_zero (most : Z) (zs : list Z) : Prop := List.Forall (fun z => (0 <= z <= most)%Z) zs.

Lemma within_added m n a b : (0 <= m)%Z -> (0 <= n)%Z -> within_zero m a -> within_zero n b ->
  within_zero (m + n) (added Z.add a b).
Proof.
  intros Hm Hn Ha. revert b. induction Ha as [|x a Hx Ha IH]; intros [|y b] Hb; simpl.
  - constructor.
  - revert Hb. apply Forall_impl. lia.
  - constructor; [lia|]. revert Ha. apply Forall_impl. lia.
  - inversion Hb; subst. constructor; [lia|]. apply IH. assumption.
Qed.

Lemma sum_nonneg_Z zs : nonneg zs -> (0 <= sum_of zs)%Z.
Proof. induction 1; simpl; lia. Qed.

Lemma within_sum zs : nonneg zs -> within_zero (sum_of zs) zs.
Proof.
  induction 1 as [|z zs Hz Hr IH]; simpl; constructor. pose proof (sum_nonneg_Z zs Hr). lia.
  revert IH. apply Forall_impl. lia.
Qed.

Lemma within_convolved a b : nonneg a -> nonneg b ->
  within_zero (sum_of a * sum_of b) (whole_convolved a b).
Proof.
  intros Ha Hb. unfold whole_convolved. pose proof (sum_nonneg_Z a Ha).
  induction Hb as [|y b Hy Hb IH]; cbn [convolved sum_of]; [constructor|].
  pose proof (sum_nonneg_Z b Hb).
  replace (sum_of a * (y + sum_of b))%Z with (y * sum_of a + sum_of a * sum_of b)%Z by ring.
  apply within_added; try nia.
  - apply within_sum in Ha. revert Ha. unfold within_zero. rewrite Forall_map. apply Forall_impl. intros z Hz. nia.
  - constructor; [nia|exact IH].
Qed.

Lemma length_added (a b : list Z) : length (added Z.add a b) = Nat.max (length a) (length b).
Proof. revert b. induction a as [|x a IH]; intros [|y b]; simpl; auto. Qed.

Lemma length_convolved a b : a <> [] -> b <> [] ->
  length (whole_convolved a b) = (length a + length b - 1)%nat.
Proof.
  intros Ha. unfold whole_convolved. induction b as [|y b IH]; intro Hb; [contradiction|].
  cbn [convolved]. rewrite length_added, map_length. cbn [length].
  assert (length a <> 0)%nat by (destruct a; [contradiction|simpl; lia]).
  destruct b as [|z b]. simpl. lia.
  rewrite IH by discriminate. cbn [length]. lia.
Qed.

Fixpoint packed (k : Z) (zs : list Z) : BigN.t :=
  match zs with
  | [] => BigN.zero
  | z :: r => BigN.add (BigN.of_N (Z.to_N z)) (BigN.shiftl (packed k r) (BigN.of_N (Z.to_N k)))
  end.

Fixpoint unpacked (n : nat) (k mask x : BigN.t) : list Z :=
  match n with
  | O => []
  | S m => BigN.to_Z (BigN.land x mask) :: unpacked m k mask (BigN.shiftr x k)
  end.

Lemma of_N_value z : (0 <= z)%Z -> BigN.to_Z (BigN.of_N (Z.to_N z)) = z.
Proof. intro H. rewrite BigN.spec_of_N, Z2N.id; auto. Qed.

Lemma packed_value k zs : (0 <= k)%Z -> nonneg zs -> BigN.to_Z (packed k zs) = value (2 ^ k) zs.
Proof.
  intros Hk. induction 1 as [|z zs Hz _ IH]; [apply BigN.spec_0|]. cbn [packed value].
  rewrite BigN.spec_add, BigN.spec_shiftl, !of_N_value, Z.shiftl_mul_pow2, IH by assumption. ring.
Qed.

Lemma unpacked_value k zs : (0 <= k)%Z -> within_zero (2 ^ k - 1) zs -> forall x,
  BigN.to_Z x = value (2 ^ k) zs ->
  unpacked (length zs) (BigN.of_N (Z.to_N k)) (BigN.of_N (Z.to_N (Z.ones k))) x = zs.
Proof.
  intros Hk. assert (P : (0 < 2 ^ k)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (O : (0 <= Z.ones k)%Z) by (rewrite Z.ones_equiv; lia).
  induction 1 as [|z zs Hz _ IH]; intros x E; cbn [length unpacked]; [reflexivity|].
  cbn [value] in E. f_equal.
  - rewrite BigN.spec_land, of_N_value, Z.land_ones, E by assumption.
    rewrite Z.mul_comm, Z.mod_add by lia. apply Z.mod_small. lia.
  - apply IH. rewrite BigN.spec_shiftr, of_N_value, Z.shiftr_div_pow2, E by assumption.
    rewrite Z.mul_comm, Z.div_add by lia. rewrite Z.div_small by lia. lia.
Qed.

Definition quickly (a b : list Z) : list Z :=
  match a, b with
  | [], _ | _, [] => whole_convolved a b
  | _, _ =>
      let k := (Z.log2 (sum_of a * sum_of b) + 1)%Z in
      unpacked (length a + length b - 1) (BigN.of_N (Z.to_N k)) (BigN.of_N (Z.to_N (Z.ones k)))
        (BigN.mul (packed k a) (packed k b))
  end.

Lemma quickly_convolved a b : nonneg a -> nonneg b -> quickly a b = whole_convolved a b.
Proof.
  intros Ha Hb. destruct a as [|x a]; [reflexivity|]. destruct b as [|y b]; [reflexivity|].
  unfold quickly. rewrite <- length_convolved by discriminate.
  set (u := x :: a) in *. set (v := y :: b) in *. set (k := (Z.log2 _ + 1)%Z).
  assert (Hk : (0 <= k)%Z) by (unfold k; pose proof (Z.log2_nonneg (sum_of u * sum_of v)); lia).
  apply unpacked_value; [exact Hk| |].
  - pose proof (within_convolved u v Ha Hb) as W. revert W. apply Forall_impl. intros z Hz.
    assert (sum_of u * sum_of v < 2 ^ k)%Z; [|lia]. unfold k. rewrite Z.add_1_r.
    destruct (Z.eq_dec (sum_of u * sum_of v) 0) as [->|N]; [reflexivity|].
    apply Z.log2_spec. pose proof (sum_nonneg_Z u Ha). pose proof (sum_nonneg_Z v Hb). nia.
  - rewrite BigN.spec_mul, !packed_value, value_convolved by assumption. reflexivity.
Qed.

(* --- rounding, and repetition ----------------------------------------------------------------- *)

(* Whole numbers in units of 2^-bits. *)
Record grid_losses : Type := Grid_losses { lowest : Z; counts : list Z; lost_of : Z }.

Definition unit_of (bits : Z) : R := IZR (2 ^ bits).

Definition losses_of (bits : Z) (A : grid_losses) : losses :=
  Losses (lowest A) (scaled (unit_of bits) (counts A)) (IZR (lost_of A) / unit_of bits).

Definition raised (bits z : Z) : Z := Z.shiftr (z + (2 ^ bits - 1)) bits.

(* The first n, each divided by 2^bits and rounded up, and the sum of the others. *)
Fixpoint trimmed (bits : Z) (n : nat) (zs : list Z) : list Z * Z :=
  match zs with
  | [] => ([], 0%Z)
  | z :: r =>
      match n with
      | O => let (kept, rest) := trimmed bits O r in (kept, (raised bits z + rest)%Z)
      | S m => let (kept, rest) := trimmed bits m r in (raised bits z :: kept, rest)
      end
  end.

Definition then_losses (bits : Z) (most : Z) (A B : grid_losses) : grid_losses :=
  let low := (lowest A + lowest B)%Z in
  let (kept, rest) := trimmed bits (Z.to_nat (most - low)) (quickly (counts A) (counts B)) in
  Grid_losses low kept (rest + lost_of B + raised bits (lost_of A * sum_of (counts B)))%Z.

Fixpoint repeated_losses (bits most : Z) (B : grid_losses) (times : nat) : grid_losses :=
  match times with
  | O => Grid_losses 0 [(2 ^ bits)%Z] 0
  | S n => then_losses bits most (repeated_losses bits most B n) B
  end.

Section Rounding.
Variables (bits : Z) (w : R).
Hypothesis Hb : (0 <= bits)%Z.
Hypothesis Hw : 0 < w.
Let D := unit_of bits.

Lemma unit_positive : 0 < D.
Proof. apply IZR_lt, Z.pow_pos_nonneg; lia. Qed.

Lemma raised_above z : IZR z / (D * D) <= IZR (raised bits z) / D.
Proof.
  pose proof unit_positive. apply (Rmult_le_reg_r (D * D)); [nra|].
  replace (IZR z / (D * D) * (D * D)) with (IZR z) by (field; lra).
  replace (IZR (raised bits z) / D * (D * D)) with (IZR (raised bits z) * D) by (field; lra).
  unfold D, unit_of. rewrite <- mult_IZR. apply IZR_le. unfold raised.
  rewrite Z.shiftr_div_pow2 by exact Hb. set (u := (2 ^ bits)%Z).
  assert (0 < u)%Z by (apply Z.pow_pos_nonneg; lia).
  pose proof (Z.div_mod (z + (u - 1)) u ltac:(lia)). pose proof (Z.mod_pos_bound (z + (u - 1)) u H0). nia.
Qed.

Lemma raised_nonneg z : (0 <= z)%Z -> (0 <= raised bits z)%Z.
Proof.
  intro H. unfold raised. rewrite Z.shiftr_div_pow2 by exact Hb.
  assert (0 < 2 ^ bits)%Z by (apply Z.pow_pos_nonneg; lia). apply Z.div_pos; lia.
Qed.

Lemma trimmed_nonneg n zs : nonneg zs -> nonneg (fst (trimmed bits n zs)) /\ (0 <= snd (trimmed bits n zs))%Z.
Proof.
  intro H. revert n. induction H as [|z zs Hz _ IH]; intro n; simpl; [split; [constructor|lia]|].
  pose proof (raised_nonneg z Hz). destruct n as [|n].
  - destruct (IH 0%nat). destruct (trimmed bits 0 zs). simpl in *. split; [assumption|lia].
  - destruct (IH n). destruct (trimmed bits n zs). simpl in *. split; [constructor; assumption|assumption].
Qed.

Lemma gain_most l e : gain w l e <= 1.
Proof. unfold gain. apply Rmax_lub; [lra|]. pose proof (exp_pos (e - IZR l * w)). lra. Qed.

Lemma trimmed_above zs : nonneg zs -> forall n l e,
  above w l (scaled (D * D) zs) e
    <= above w l (scaled D (fst (trimmed bits n zs))) e + IZR (snd (trimmed bits n zs)) / D.
Proof.
  pose proof unit_positive as P. intro H. induction H as [|z zs Hz Hp IH]; intros n l e; cbn [trimmed].
  - simpl. unfold Rdiv. lra.
  - pose proof (raised_above z) as U. pose proof (gain_nonneg w l e) as G. pose proof (gain_most l e) as G1.
    assert (N : 0 <= IZR (raised bits z) / D).
    { apply Rle_mult_inv_pos; [apply IZR_le, raised_nonneg, Hz|exact P]. }
    cbn [scaled map above]. change (map (fun z => IZR z / (D * D)) zs) with (scaled (D * D) zs).
    destruct n as [|n].
    + specialize (IH 0%nat (l + 1)%Z e). pose proof (trimmed_nonneg 0 zs Hp) as [K _].
      assert (E : forall l, above w l (scaled D (fst (trimmed bits 0 zs))) e = 0).
      { clear. induction zs as [|y zs IH]; intro l; [reflexivity|]. cbn [trimmed].
        destruct (trimmed bits 0 zs). exact (IH l). }
      rewrite E in IH. destruct (trimmed bits 0 zs) as [kept rest] eqn:T. cbn [fst snd] in *.
      rewrite E. rewrite plus_IZR. replace ((IZR (raised bits z) + IZR rest) / D)
        with (IZR (raised bits z) / D + IZR rest / D) by (field; lra). nra.
    + specialize (IH n (l + 1)%Z e). destruct (trimmed bits n zs) as [kept rest]. cbn [fst snd] in *.
      cbn [scaled map above]. change (map (fun z => IZR z / D) kept) with (scaled D kept). nra.
Qed.

Lemma scaled_positive zs : nonneg zs -> positive_masses (scaled D zs).
Proof.
  intro H. pose proof unit_positive. unfold positive_masses, scaled. rewrite List.Forall_map.
  revert H. apply List.Forall_impl. intros z Hz. apply Rle_mult_inv_pos; [apply IZR_le, Hz|assumption].
Qed.

Lemma scaled_mass E zs : mass_of (scaled E zs) = IZR (sum_of zs) / E.
Proof.
  induction zs as [|z zs IH]; simpl. unfold Rdiv; ring. rewrite IH, plus_IZR. unfold Rdiv. ring.
Qed.

Lemma convolved_nonneg a b : nonneg a -> nonneg b -> nonneg (whole_convolved a b).
Proof.
  intros Ha Hb'. pose proof (within_convolved a b Ha Hb') as W. revert W. apply List.Forall_impl. lia.
Qed.

Definition sound_losses (A : grid_losses) : Prop := nonneg (counts A) /\ (0 <= lost_of A)%Z.

Lemma then_sound most A B : sound_losses A -> sound_losses B -> sound_losses (then_losses bits most A B).
Proof.
  intros [HA IA] [HB IB]. unfold then_losses.
  pose proof (trimmed_nonneg (Z.to_nat (most - (lowest A + lowest B))) (quickly (counts A) (counts B))) as T.
  rewrite quickly_convolved in * by assumption. specialize (T (convolved_nonneg _ _ HA HB)).
  destruct (trimmed _ _ _) as [kept rest]. destruct T as [T1 T2]. split; simpl in *; [exact T1|].
  pose proof (raised_nonneg (lost_of A * sum_of (counts B))). pose proof (sum_nonneg_Z _ HB). nia.
Qed.

Theorem then_dominated most A B Z R R' : sound_losses A -> sound_losses B ->
  whole_losses (losses_of bits B) ->
  sequence (dominated w (losses_of bits A)) (dominated w (losses_of bits B)) Z R R' ->
  dominated w (losses_of bits (then_losses bits most A B)) Z R R'.
Proof.
  intros [HA IA] [HB IB] WB (X & Y & pair & P & P' & K & K' & DP & DK & J & J') e.
  pose proof (composition w Hw X Y Z pair P P' K K' R R' _ _ J J' WB DP DK e) as C.
  revert C. apply approx_weaken; [lra|]. pose proof unit_positive as U. fold D in U.
  change (first (losses_of bits B)) with (lowest B).
  change (masses (losses_of bits B)) with (scaled D (counts B)).
  rewrite <- (above_convolved w). change (first (losses_of bits A)) with (lowest A).
  change (masses (losses_of bits A)) with (scaled D (counts A)). rewrite <- scaled_convolved by exact U.
  rewrite scaled_mass. change (infinite (losses_of bits A)) with (IZR (lost_of A) / D).
  change (infinite (losses_of bits B)) with (IZR (lost_of B) / D).
  unfold curve, then_losses. rewrite quickly_convolved by assumption.
  pose proof (trimmed_above _ (convolved_nonneg _ _ HA HB) (Z.to_nat (most - (lowest A + lowest B)))
    (lowest A + lowest B) e) as T.
  destruct (trimmed _ _ _) as [kept rest]. cbn [fst snd] in T.
  cbn [losses_of first masses infinite lowest counts lost_of]. fold D.
  pose proof (raised_above (lost_of A * sum_of (counts B))) as L. rewrite mult_IZR in L.
  replace (IZR (lost_of A) / D * (IZR (sum_of (counts B)) / D))
    with (IZR (lost_of A) * IZR (sum_of (counts B)) / (D * D)) by (field; lra).
  rewrite !plus_IZR.
  replace ((IZR rest + IZR (lost_of B) + IZR (raised bits (lost_of A * sum_of (counts B)))) / D)
    with (IZR rest / D + IZR (lost_of B) / D + IZR (raised bits (lost_of A * sum_of (counts B))) / D)
    by (field; lra). lra.
Qed.

Theorem repeated_dominated most B body times : sound_losses B -> whole_losses (losses_of bits B) ->
  private (dominated w (losses_of bits B)) body ->
  private (dominated w (losses_of bits (repeated_losses bits most B times))) (Repeat times (fun _ => body)).
Proof.
  intros SB WB H.
  assert (S : forall n, sound_losses (repeated_losses bits most B n)).
  { induction n as [|n IH]; [|apply then_sound; assumption].
    split; simpl; [|lia]. constructor; [apply Z.pow_nonneg; lia|constructor]. }
  induction times as [|n IH]; intros Z R R' E.
  - intros e f Hf. rewrite (E f Hf). pose proof (mean_range Z R' f Hf) as M. pose proof unit_positive.
    unfold curve, losses_of. cbn [repeated_losses lowest counts lost_of scaled map first masses infinite above].
    fold D. replace (IZR (2 ^ bits) / D) with 1 by (unfold D, unit_of; field; apply IZR_neq;
      assert (0 < 2 ^ bits)%Z by (apply Z.pow_pos_nonneg; lia); lia).
    unfold gain. rewrite Rmult_0_l, Rminus_0_r. pose proof (Rmax_l 0 (1 - exp e)).
    pose proof (Rmax_r 0 (1 - exp e)). pose proof (exp_pos e). unfold Rdiv. nra.
  - change (sequence (realises (Repeat n (fun _ => body))) (realises body) Z R R') in E.
    apply then_dominated; auto. revert E. apply sequence_le. exact IH. exact H.
Qed.

End Rounding.

