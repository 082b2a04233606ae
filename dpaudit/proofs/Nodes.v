(* Declarations, and which pairs of laws they allow on two neighbouring data sets. *)

Require Import Reals Lra Lia String ZArith Bool.
From Coquelicot Require Import Coquelicot.
Require Import List.
Import ListNotations.
From DPAudit Require Import Laws Composition.
Open Scope R_scope.

(* Rows of a matrix that is released row by row: how many, the round of each, and its entries. *)
Record rows : Type := Rows {
  how_many : nat;
  released : nat -> Z;
  entry : nat -> Z -> R
}.

Fixpoint squares (r : rows) (t : Z) (n : nat) : R :=
  match n with O => 0 | S m => squares r t m + entry r m t * entry r m t end.

(* The squared norm of column t. *)
Fixpoint column (strategy : list rows) (t : Z) : R :=
  match strategy with [] => 0 | r :: rest => squares r t (how_many r) + column rest t end.

(* No row looks ahead. *)
Definition causal (strategy : list rows) : Prop :=
  List.Forall (fun r => forall i t, entry r i t <> 0 -> (t <= released r i)%Z) strategy.

(* The nodes of a Fenwick tree by level: row j of level l sums rounds 2 j 2^l + 1 .. (2 j + 1) 2^l,
   and is released in the last of these. *)
Definition tree_level (rounds : Z) (level : nat) : rows :=
  let width := (2 ^ Z.of_nat level)%Z in
  Rows (Z.to_nat ((rounds / width + 1) / 2))
    (fun j => (2 * Z.of_nat j + 1) * width)%Z
    (fun j t => if ((2 * Z.of_nat j * width <? t) && (t <=? (2 * Z.of_nat j + 1) * width))%Z
                then 1 else 0).

Definition tree (rounds : Z) : list rows :=
  map (tree_level rounds) (seq 0 (Z.to_nat (Z.log2 rounds + 1))).

(* One release, its noise divided by the sensitivity of its query. *)
Inductive leaf : Type :=
  | Gaussian (noise_multiplier : R)
  | Laplace (noise_multiplier : R)
  | DiscreteGaussian (variance sensitivity : R)
  | DiscreteLaplace (scale sensitivity : R)
  | RandomizedResponse (epsilon choices : R)
  | ExponentialMechanism (range : R)
  | AboveThreshold (threshold query : R)
  | CorrelatedGaussian (noise_multiplier : R) (rounds : Z) (strategy : list rows).

(* How far two releases that pass a test are apart, by the scores of their data sets: what a path of
   as many steps allows, or a diameter. *)
Inductive distance : Type := Path | Diameter.

Definition units (far : distance) (s t : nat) : R :=
  match far with Path => IZR (Z.of_nat s + Z.of_nat t + 2) | Diameter => 2 end.

(* The order of two neighbours: the second without a record of the first, or the first without. *)
Inductive order : Type := Removed | Added.

Inductive node : Type :=
  | Leaf (release : leaf)
  | PureDP (epsilon : R)
  | ApproxDP (epsilon delta : R)
  | ZCDP (rho : R)
  | GDP (mu : R)
  | Silent
  | Then (first second : node)
  | Repeat (times : nat) (round : nat -> node)
  | Parallel (part other : node)
  | Select (one other : node)
  | Assuming (assumption : string) (base : node)
  | EventSlack (probability : R) (child : node)
  | ProposeTestRelease (false_pass : R) (test release : node)
  | Group (size : nat) (child : node)
  | Filter (charge : nat -> R -> R) (release : nat -> R -> node) (cap : R)
  | StableRelease (epsilon : R) (kappa : nat) (noise_multiplier : R) (far : distance)
  | PoissonSampled (neighbours : order) (rate : R) (child : node).

(* The pairs of laws of a release, for all queries of the declared sensitivity, all data sets and
   neighbours in either order.  Hypotheses speak of these. *)
Parameter runs : leaf -> measure.

(* Whether an assumption that the declaration names holds. *)
Parameter holds : string -> Prop.

(* A release of one kind, and then, given its outcome, one of another. *)
Definition sequence (M N : measure) : measure := fun Z R R' =>
  exists (X Y : space) (pair : X -> Y -> Z) (P P' : law X) (K K' : X -> law Y),
    M X P P' /\ (forall x, N Y (K x) (K' x)) /\
    joined X Y Z pair P K R /\ joined X Y Z pair P' K' R'.

(* Within p of each other in total variation. *)
Definition near (p : R) : measure := fun X P Q =>
  forall f, test X f -> P f <= Q f + p /\ Q f <= P f + p.

(* Each within p of laws that are M. *)
Definition slack (p : R) (M : measure) : measure := fun X P Q =>
  exists P' Q' : law X, near p X P P' /\ near p X Q Q' /\ M X P' Q'.

(* One outcome, bottom, but with probability p at most. *)
Definition bottom (p : R) : measure := fun X P Q => exists b : X,
  forall f, test X f ->
    (1 - p) * f b <= P f <= (1 - p) * f b + p /\ (1 - p) * f b <= Q f <= (1 - p) * f b + p.

(* So many steps, each between laws that are M. *)
Fixpoint chain (M : measure) (size : nat) : measure := fun X P Q =>
  match size with
  | O => same X P Q
  | S fewer => exists L : law X, chain M fewer X P L /\ M X L Q
  end.

(* At most so many releases, each chosen from the past; charges never pass what is left. *)
Fixpoint spend (kinds : nat -> R -> measure) (charge : nat -> R -> R) (most : nat) (left : R) :
  measure := fun Z R R' =>
  same Z R R' \/
  match most with
  | O => False
  | S fewer => exists kind noise, 0 < noise /\ 0 <= charge kind noise <= left /\
      sequence (kinds kind noise) (spend kinds charge fewer (left - charge kind noise)) Z R R'
  end.

(* A threshold r in 0..2 kappa has a weight of exp(- epsilon |r - kappa|): one threshold's, that of
   the n highest together, and the probability of a threshold of at least s. *)
Definition weight (epsilon : R) (kappa r : nat) : R :=
  exp (- epsilon * IZR (Z.abs (Z.of_nat r - Z.of_nat kappa))).

Fixpoint highest (epsilon : R) (kappa n : nat) : R :=
  match n with
  | O => 0
  | S m => highest epsilon kappa m + weight epsilon kappa (2 * kappa - m)
  end.

Definition passes (epsilon : R) (kappa s : nat) : R :=
  highest epsilon kappa (2 * kappa + 1 - s) / highest epsilon kappa (2 * kappa + 1).

(* Scores s and t of neighbours, one apart at most: a release where the threshold is at least the
   score, else bottom. *)
Definition scored (epsilon : R) (kappa : nat) (release : nat -> nat -> measure) : measure :=
  fun X P Q => exists (s t : nat) (bottom : X) (L K : law X), (s <= S t)%nat /\ (t <= S s)%nat /\
    release s t X L K /\ forall f, test X f ->
      P f = (1 - passes epsilon kappa s) * f bottom + passes epsilon kappa s * L f /\
      Q f = (1 - passes epsilon kappa t) * f bottom + passes epsilon kappa t * K f.

(* Given which others are drawn (w), one record is drawn with probability q, or is not there. *)
Definition drawn (q : R) (M : measure) (X : space) (mixed plain : law X) (swap : order) : Prop :=
  exists (W : space) (others : law W) (K K' : W -> law X),
    (forall w, match swap with Removed => M X (K' w) (K w) | Added => M X (K w) (K' w) end) /\
    forall f, test X f ->
      test W (fun w => K w f) /\ test W (fun w => q * K' w f + (1 - q) * K w f) /\
      mixed f = others (fun w => q * K' w f + (1 - q) * K w f) /\
      plain f = others (fun w => K w f).

Definition sampled (o : order) (q : R) (M : measure) : measure := fun X P Q =>
  match o with Removed => drawn q M X P Q Removed | Added => drawn q M X Q P Added end.

Fixpoint realises (n : node) : measure :=
  match n with
  | Leaf release => runs release
  | PureDP epsilon => pure epsilon
  | ApproxDP epsilon delta => approx epsilon delta
  | ZCDP rho => zcdp rho
  | GDP mu => gdp mu
  | Silent => same
  | Then first second => sequence (realises first) (realises second)
  | Repeat times round =>
      (fix rounds (k : nat) : measure :=
         match k with O => same | S j => sequence (rounds j) (realises (round k)) end) times
  | Parallel part other => fun Z R R' =>
      sequence (realises part) same Z R R' \/ sequence same (realises other) Z R R'
  | Select one other => fun Z R R' => realises one Z R R' \/ realises other Z R R'
  | Assuming assumption base => fun Z R R' => holds assumption -> realises base Z R R'
  | EventSlack probability child => slack probability (realises child)
  | ProposeTestRelease false_pass test release => fun Z R R' =>
      sequence (realises test) (fun Y K K' => same Y K K' \/ realises release Y K K') Z R R' \/
      bottom false_pass Z R R'
  | Group size child => chain (realises child) size
  | Filter charge release cap => fun Z R R' =>
      exists most, spend (fun kind noise => realises (release kind noise)) charge most cap Z R R'
  | StableRelease epsilon kappa noise far =>
      scored epsilon kappa (fun s t => runs (Gaussian (noise / units far s t)))
  | PoissonSampled neighbours rate child => sampled neighbours rate (realises child)
  end.

(* The rounds of a Repeat, one by one. *)
Definition rounds (nodes : list node) (k : nat) : node := nth (pred k) nodes Silent.

(* Several nodes; the last of two or more is the second of its pair. *)
Fixpoint Compose (nodes : list node) : node :=
  match nodes with [] => Silent | n :: rest => Then n (Compose rest) end.

Fixpoint Parallels (first : node) (others : list node) : node :=
  match others with [] => first | n :: rest => Parallel first (Parallels n rest) end.

Fixpoint Selects (first : node) (others : list node) : node :=
  match others with [] => first | n :: rest => Select first (Selects n rest) end.

Definition private (M : measure) (n : node) : Prop := forall X P Q, realises n X P Q -> M X P Q.

(* --- measures that add ------------------------------------------------------------------------ *)

(* mu^2-GDP: 0 is a law and itself. *)
Definition gdp_square (s : R) : measure := fun X P Q =>
  if Rle_dec s 0 then same X P Q else gdp (sqrt s) X P Q.

(* M v d, with a number v and a probability d of failure (0 where the measure has none). *)
Record adds (M : R -> R -> measure) : Prop := Adds {
  adds_same : forall X P Q, same X P Q -> M 0 0 X P Q;
  adds_then : forall v d w e Z R R', 0 <= v -> 0 <= d -> 0 <= w -> 0 <= e ->
    sequence (M v d) (M w e) Z R R' -> M (v + w) (d + e) Z R R'
}.

Definition weakens (M : R -> R -> measure) : Prop := forall v d w e X P Q,
  0 <= v -> v <= w -> d <= e -> M v d X P Q -> M w e X P Q.

Definition of_pure (v d : R) : measure := approx v d.
Definition of_zcdp (v d : R) : measure := zcdp v.
Definition of_renyi (a v d : R) : measure := renyi a v.
Definition of_gdp (v d : R) : measure := gdp_square v.

Lemma approx_adds : adds approx.
Proof.
  split. intros. apply approx_same; auto; lra.
  intros v d w e Z R R' _ Hd _ He (X & Y & pair & P & P' & K & K' & HP & HK & J & J').
  exact (approx_then X Y Z pair P P' K K' R R' J J' v d w e Hd He HP HK).
Qed.

Lemma zcdp_adds : adds of_zcdp.
Proof.
  split. intros. apply zcdp_same; auto; lra.
  intros v d w e Z R R' _ Hd _ He (X & Y & pair & P & P' & K & K' & HP & HK & J & J').
  exact (zcdp_then X Y Z pair P P' K K' R R' J J' v w HP HK).
Qed.

Lemma renyi_adds a : 1 < a -> adds (of_renyi a).
Proof.
  intro Ha. split. intros. apply renyi_same; auto; lra.
  intros v d w e Z R R' _ Hd _ He (X & Y & pair & P & P' & K & K' & HP & HK & J & J').
  exact (renyi_then X Y Z pair P P' K K' R R' J J' a v w Ha HP HK).
Qed.

Lemma approx_weakens : weakens approx.
Proof. intros v d w e X P Q _ Hv Hd. apply approx_weaken; assumption. Qed.

Lemma zcdp_weakens : weakens of_zcdp.
Proof. intros v d w e X P Q _ Hv _. apply zcdp_weaken; assumption. Qed.

Lemma renyi_weakens a : 1 < a -> weakens (of_renyi a).
Proof. intros Ha v d w e X P Q _ Hv _. apply renyi_weaken; assumption. Qed.

(* --- rules for declarations ------------------------------------------------------------------- *)

Fixpoint total (v : nat -> R) (n : nat) : R :=
  match n with O => 0 | S m => total v m + v n end.

Lemma total_nonneg v n : (forall k, 0 <= v k) -> 0 <= total v n.
Proof. intro H. induction n; simpl. lra. specialize (H (S n)). lra. Qed.

Lemma total_constant c n : total (fun _ => c) n = INR n * c.
Proof. induction n. simpl. ring. rewrite S_INR. cbn [total]. rewrite IHn. ring. Qed.

Section Rules.
Variable M : R -> R -> measure.
Hypothesis A : adds M.

Lemma sequence_le (N N' K K' : measure) Z R R' :
  (forall X P Q, N X P Q -> N' X P Q) -> (forall X P Q, K X P Q -> K' X P Q) ->
  sequence N K Z R R' -> sequence N' K' Z R R'.
Proof.
  intros HN HK (X & Y & pair & P & P' & L & L' & HP & HL & J & J').
  exists X, Y, pair, P, P', L, L'. auto.
Qed.

Theorem silent : private (M 0 0) Silent.
Proof. intros X P Q H. apply (adds_same M A), H. Qed.

Theorem composed a b v d w e : 0 <= v -> 0 <= d -> 0 <= w -> 0 <= e ->
  private (M v d) a -> private (M w e) b -> private (M (v + w) (d + e)) (Then a b).
Proof.
  intros Hv Hd Hw He Ha Hb Z R R' H. apply (adds_then M A); auto.
  apply (sequence_le (realises a) _ (realises b) _); auto.
Qed.

Theorem repeated times round v d : (forall k, 0 <= v k) -> (forall k, 0 <= d k) ->
  (forall k, private (M (v k) (d k)) (round k)) ->
  private (M (total v times) (total d times)) (Repeat times round).
Proof.
  intros Hv Hd H. induction times as [|n IH]; intros Z R R' E.
  - apply (adds_same M A), E.
  - change (sequence (realises (Repeat n round)) (realises (round (S n))) Z R R') in E.
    apply (adds_then M A); [apply total_nonneg, Hv|apply total_nonneg, Hd|apply Hv|apply Hd|].
    revert E. apply sequence_le. exact IH. exact (H (S n)).
Qed.

Theorem repeated_alike times body v d : (0 <= times)%Z -> 0 <= v -> 0 <= d -> private (M v d) body ->
  private (M (IZR times * v) (IZR times * d)) (Repeat (Z.to_nat times) (fun _ => body)).
Proof.
  intros Ht Hv Hd H. rewrite <- (Z2Nat.id times) at 1 2 by exact Ht. rewrite <- INR_IZR_INZ.
  rewrite <- !total_constant. apply repeated; auto.
Qed.

Theorem disjoint a b v d : 0 <= v -> 0 <= d ->
  private (M v d) a -> private (M v d) b -> private (M v d) (Parallel a b).
Proof.
  intros Hv Hd Ha Hb Z R R' [H|H].
  - replace v with (v + 0) by ring. replace d with (d + 0) by ring. apply (adds_then M A); try lra.
    revert H. apply sequence_le; auto. apply (adds_same M A).
  - replace v with (0 + v) by ring. replace d with (0 + d) by ring. apply (adds_then M A); try lra.
    revert H. apply sequence_le; auto. apply (adds_same M A).
Qed.

Theorem chosen a b v d : private (M v d) a -> private (M v d) b -> private (M v d) (Select a b).
Proof. intros Ha Hb Z R R' [H|H]; auto. Qed.

Theorem assumed assumption base v d :
  holds assumption -> private (M v d) base -> private (M v d) (Assuming assumption base).
Proof. intros Hh Hb Z R R' H. apply Hb, H, Hh. Qed.

Definition value : Type := (node * (R * R))%type.

Definition holds_of (x : value) : Prop :=
  (0 <= fst (snd x)) /\ (0 <= snd (snd x)) /\ private (M (fst (snd x)) (snd (snd x))) (fst x).

Fixpoint sum (xs : list R) : R := match xs with [] => 0 | x :: rest => x + sum rest end.

Lemma sum_nonneg xs : Forall (fun x => 0 <= x) xs -> 0 <= sum xs.
Proof. induction 1; simpl; lra. Qed.

Theorem composed_all (xs : list value) : Forall holds_of xs ->
  private (M (sum (map (fun x => fst (snd x)) xs)) (sum (map (fun x => snd (snd x)) xs)))
    (Compose (map fst xs)).
Proof.
  induction 1 as [|x xs (Hv & Hd & H) F IH]; simpl. exact silent.
  apply composed; auto; apply sum_nonneg; rewrite Forall_map; revert F; apply Forall_impl;
    intros y Hy; apply Hy.
Qed.

Lemma total_below v w n : (forall k, (1 <= k <= n)%nat -> v k = w k) -> total v n = total w n.
Proof.
  induction n as [|n IH]; intro H; [reflexivity|]. cbn [total].
  rewrite IH, H; [reflexivity|lia|intros; apply H; lia].
Qed.

Lemma sum_app xs x : sum (xs ++ [x]) = sum xs + x.
Proof. induction xs as [|y ys IH]; simpl; [lra|]. rewrite IH. ring. Qed.

Lemma total_listed xs : total (fun k => nth (pred k) xs 0) (length xs) = sum xs.
Proof.
  induction xs as [|x xs IH] using rev_ind; [reflexivity|].
  rewrite app_length, Nat.add_1_r, sum_app. cbn [total Nat.pred].
  rewrite nth_middle, <- IH. f_equal. apply total_below. intros k H. apply app_nth1. lia.
Qed.

(* Rounds that differ: the k-th is the k-th of the list. *)
Theorem repeated_each (xs : list value) times : Z.to_nat times = length xs -> Forall holds_of xs ->
  private (M (sum (map (fun x => fst (snd x)) xs)) (sum (map (fun x => snd (snd x)) xs)))
    (Repeat (Z.to_nat times) (rounds (map fst xs))).
Proof.
  intros E F. set (nothing := (Silent, (0, 0)) : value).
  assert (H : forall k, holds_of (nth (pred k) xs nothing)).
  { intro k. destruct (nth_in_or_default (pred k) xs nothing) as [I|I].
    - rewrite Forall_forall in F. apply F, I.
    - rewrite I. split; [|split]; simpl; try lra. exact silent. }
  assert (V : forall f : node * (R * R) -> R, f nothing = 0 ->
    sum (map f xs) = total (fun k => f (nth (pred k) xs nothing)) (length xs)).
  { intros f f0. rewrite <- total_listed, map_length. apply total_below. intros k _.
    rewrite <- f0. apply map_nth. }
  rewrite (V (fun x => fst (snd x)) eq_refl), (V (fun x => snd (snd x)) eq_refl), E.
  apply repeated; intro k; [apply (H k)|apply (H k)|].
  unfold rounds. change Silent with (fst nothing). rewrite map_nth. apply (H k).
Qed.

Theorem disjoint_all first others v d : 0 <= v -> 0 <= d ->
  Forall (private (M v d)) (first :: others) -> private (M v d) (Parallels first others).
Proof.
  intros Hv Hd F. inversion F as [|a l Ha Hl]; subst. clear F. revert first Ha.
  induction Hl as [|b rest Hb Hr IH]; intros first Ha; simpl; auto. apply disjoint; auto.
Qed.

Theorem chosen_all first others v d :
  Forall (private (M v d)) (first :: others) -> private (M v d) (Selects first others).
Proof.
  intros F. inversion F as [|a l Ha Hl]; subst. clear F. revert first Ha.
  induction Hl as [|b rest Hb Hr IH]; intros first Ha; simpl; auto. apply chosen; auto.
Qed.

Theorem equals n v d w e : v = w -> d = e -> private (M v d) n -> private (M w e) n.
Proof. intros <- <-. auto. Qed.

Hypothesis W : weakens M.

Theorem weakened n v d w e : 0 <= v -> v <= w -> d <= e -> private (M v d) n -> private (M w e) n.
Proof. intros H0 Hv Hd H X P Q E. apply (W v d); auto. Qed.

(* Charges in one unit, the guarantee in a multiple of it: c of rho, mu^2 or epsilon each. *)
Theorem filtered charge release c cap : 0 <= c -> 0 <= cap ->
  (forall kind noise, 0 < noise -> private (M (c * charge kind noise) 0) (release kind noise)) ->
  private (M (c * cap) 0) (Filter charge release cap).
Proof.
  intros Hc Hcap H Z R R' [most E]. revert cap Hcap Z R R' E.
  induction most as [|n IH]; intros cap Hcap Z R R' E; simpl in E; destruct E as [E|E].
  - apply (W 0 0); auto; try lra; [nra|]. apply (adds_same M A), E.
  - contradiction.
  - apply (W 0 0); auto; try lra; [nra|]. apply (adds_same M A), E.
  - destruct E as (kind & noise & Hn & [H0 Hle] & E).
    replace (c * cap) with (c * charge kind noise + c * (cap - charge kind noise)) by ring.
    replace 0 with (0 + 0) by ring. apply (adds_then M A); try nra.
    revert E. apply sequence_le.
    + intros X P Q. apply H, Hn.
    + intros X P Q. apply IH. lra.
Qed.

End Rules.

(* --- events, tests and groups ----------------------------------------------------------------- *)

Lemma near_trans p q X P Q L : near p X P Q -> near q X Q L -> near (p + q) X P L.
Proof. intros H K f Hf. specialize (H f Hf). specialize (K f Hf). lra. Qed.

Lemma near_same X P : near 0 X P P.
Proof. intros f _. lra. Qed.

Lemma slack_le p q (M N : measure) X P Q :
  (forall L K, M X L K -> slack q N X L K) -> slack p M X P Q -> slack (q + p) N X P Q.
Proof.
  intros H (P' & Q' & HP & HQ & HM). destruct (H _ _ HM) as (L & K & HL & HK & HN).
  exists L, K. rewrite Rplus_comm. split; [|split; [|exact HN]]; eapply near_trans; eassumption.
Qed.

(* Dwork, Roth 2014, Lemma 3.17, part 2: failure on either side, e^epsilon of it on the other. *)
Theorem slack_approx e d p X P Q :
  slack p (approx e d) X P Q -> approx e (d + p * (1 + exp e)) X P Q.
Proof.
  intros (P' & Q' & HP & HQ & H) f Hf.
  destruct (HP f Hf), (HQ f Hf). specialize (H f Hf). pose proof (exp_pos e). nra.
Qed.

Theorem slack_at e d p n :
  private (approx e d) n -> private (approx e (d + p * (1 + exp e))) (EventSlack p n).
Proof.
  intros H X P Q (L & K & HL & HK & R). apply slack_approx. exists L, K.
  split; [exact HL | split; [exact HK | exact (H X L K R)]].
Qed.

(* M v within d in total variation: for measures that have no probability of failure. *)
Definition within (M : R -> R -> measure) (v d : R) : measure := slack d (M v 0).

Theorem within_exactly M v n : private (M v 0) n -> private (within M v 0) n.
Proof.
  intros H X P Q E. exists P, Q. split; [apply near_same|split; [apply near_same|apply H, E]].
Qed.

Theorem within_slack M v d p n :
  private (within M v d) n -> private (within M v (d + p)) (EventSlack p n).
Proof. intros H X P Q E. revert E. apply slack_le. intros L K. apply H. Qed.

(* Dwork, Lei 2009, Section 3: propose-test-release. *)
Theorem tested_approx e d e' d' p test release worst : 0 <= e -> 0 <= e' -> 0 <= d -> 0 <= d' ->
  d + d' <= worst -> p <= worst ->
  private (approx e d) test -> private (approx e' d') release ->
  private (approx (e + e') worst) (ProposeTestRelease p test release).
Proof.
  intros He He' Hd Hd' Hs Hp HT HR X P Q [E|[b E]].
  - apply (approx_weaken _ _ _ (e + e') (d + d')); [lra|exact Hs|].
    apply (adds_then approx approx_adds); auto. revert E. apply sequence_le; auto.
    intros Y K K' [S|S]; [apply approx_same; assumption|auto].
  - intros f Hf. destruct (E f Hf) as [[_ A] [B _]].
    pose proof (mean_range X Q f Hf). pose proof (exp_le 0 (e + e')) as G. rewrite exp_0 in G. nra.
Qed.

(* Vadhan 2017, Lemma 2.2: groups, of pure privacy. *)
Theorem group_pure size e n : private (approx e 0) n ->
  private (approx (INR size * e) 0) (Group size n).
Proof.
  intros H X P Q. revert Q. induction size as [|k IH]; intros Q E f Hf.
  - simpl in *. rewrite Rmult_0_l, exp_0, (E f Hf). lra.
  - destruct E as (L & E & F). specialize (IH L E f Hf). specialize (H X L Q F f Hf).
    rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, exp_plus.
    pose proof (exp_pos (INR k * e)). nra.
Qed.

Theorem group_pure_times size e n : (0 <= size)%Z -> private (approx e 0) n ->
  private (approx (IZR size * e) 0) (Group (Z.to_nat size) n).
Proof.
  intros Hs H. rewrite <- (Z2Nat.id size) at 1 by exact Hs. rewrite <- INR_IZR_INZ.
  apply group_pure, H.
Qed.
