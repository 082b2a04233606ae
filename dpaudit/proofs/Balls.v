(* Intervals of bounded precision, computed by the kernel: each function encloses a real one. *)

Require Import Reals ZArith Lra Lia List.
From Coquelicot Require Import Coquelicot.
From Interval Require Import Interval.Interval Interval.Float_full Float.Specific_bigint
  Float.Specific_ops Real.Xreal Float.Basic.
From DPAudit Require Import Laws Normal.
Module F := SpecificFloat BigIntRadix2.
Module I := FloatIntervalFull F.
Open Scope R_scope.

Definition within_ball (i : I.type) (x : R) : Prop := contains (I.convert i) (Xreal x).
Local Notation "x 'in_' i" := (within_ball i x) (at level 70).

Lemma undefined i x : contains (I.convert i) Xnan -> x in_ i.
Proof. unfold within_ball. destruct (I.convert i); simpl; tauto. Qed.

Section Precision.
Variable p : F.precision.

Lemma in_add i j x y : x in_ i -> y in_ j -> (x + y) in_ I.add p i j.
Proof. intros H K. exact (I.add_correct p i j _ _ H K). Qed.
Lemma in_sub i j x y : x in_ i -> y in_ j -> (x - y) in_ I.sub p i j.
Proof. intros H K. exact (I.sub_correct p i j _ _ H K). Qed.
Lemma in_mul i j x y : x in_ i -> y in_ j -> (x * y) in_ I.mul p i j.
Proof. intros H K. exact (I.mul_correct p i j _ _ H K). Qed.
Lemma in_neg i x : x in_ i -> (- x) in_ I.neg i.
Proof. intros H. exact (I.neg_correct i _ H). Qed.
Lemma in_abs i x : x in_ i -> (Rabs x) in_ I.abs i.
Proof. intros H. exact (I.abs_correct i _ H). Qed.
Lemma in_exp i x : x in_ i -> (exp x) in_ I.exp p i.
Proof. intros H. exact (I.exp_correct p i _ H). Qed.
Lemma in_sqr i x : x in_ i -> (x * x) in_ I.sqr p i.
Proof. intros H. exact (I.sqr_correct p i _ H). Qed.
Lemma in_Z z : (IZR z) in_ I.fromZ p z.
Proof. apply I.fromZ_correct. Qed.

Lemma in_div i j x y : x in_ i -> y in_ j -> (x / y) in_ I.div p i j.
Proof.
  intros H K. pose proof (I.div_correct p i j _ _ H K) as E. simpl in E. unfold Xdiv' in E.
  destruct (is_zero y); [apply undefined|]; exact E.
Qed.

Lemma in_sqrt i x : x in_ i -> (sqrt x) in_ I.sqrt p i.
Proof.
  intros H. pose proof (I.sqrt_correct p i _ H) as E. simpl in E. unfold Xsqrt' in E.
  exact E.
Qed.
Lemma in_ln i x : x in_ i -> (ln x) in_ I.ln p i.
Proof.
  intros H. pose proof (I.ln_correct p i _ H) as E. simpl in E. unfold Xln' in E.
  destruct (is_positive x); [|apply undefined]; exact E.
Qed.
Lemma in_pi : PI in_ I.pi p.
Proof. apply I.pi_correct. Qed.

Lemma in_inv i x : x in_ i -> (/ x) in_ I.inv p i.
Proof.
  intros H. pose proof (I.inv_correct p i _ H) as E. simpl in E. unfold Xinv' in E.
  destruct (is_zero x); [apply undefined|]; exact E.
Qed.

(* --- expressions ------------------------------------------------------------------------------ *)

Inductive expression : Type :=
  | Whole (z : Z)
  | Sum (a b : expression) | Difference (a b : expression) | Product (a b : expression) | Quotient (a b : expression)
  | Opposite (a : expression) | Inverse (a : expression) | Power (a : expression) (n : nat)
  | Root (a : expression) | Exponential (a : expression) | Logarithm (a : expression) | Circle.

Fixpoint real_of (n : expression) : R :=
  match n with
  | Whole z => IZR z
  | Sum a b => real_of a + real_of b
  | Difference a b => real_of a - real_of b
  | Product a b => real_of a * real_of b
  | Quotient a b => real_of a / real_of b
  | Opposite a => - real_of a
  | Inverse a => / real_of a
  | Power a k => real_of a ^ k
  | Root a => sqrt (real_of a)
  | Exponential a => exp (real_of a)
  | Logarithm a => ln (real_of a)
  | Circle => PI
  end.

Fixpoint ball_of (n : expression) : I.type :=
  match n with
  | Whole z => I.fromZ p z
  | Sum a b => I.add p (ball_of a) (ball_of b)
  | Difference a b => I.sub p (ball_of a) (ball_of b)
  | Product a b => I.mul p (ball_of a) (ball_of b)
  | Quotient a b => I.div p (ball_of a) (ball_of b)
  | Opposite a => I.neg (ball_of a)
  | Inverse a => I.inv p (ball_of a)
  | Power a k =>
      let x := ball_of a in
      (fix power k := match k with O => I.fromZ p 1 | S j => I.mul p x (power j) end) k
  | Root a => I.sqrt p (ball_of a)
  | Exponential a => I.exp p (ball_of a)
  | Logarithm a => I.ln p (ball_of a)
  | Circle => I.pi p
  end.

Lemma in_ball n : real_of n in_ ball_of n.
Proof.
  induction n; cbn [real_of ball_of];
    auto using in_Z, in_add, in_sub, in_mul, in_div, in_neg, in_inv, in_sqrt, in_exp, in_ln, in_pi.
  induction n0 as [|k IH]; [apply in_Z|]. apply in_mul; assumption.
Qed.


(* --- comparisons ------------------------------------------------------------------------------ *)

Definition at_most (i j : I.type) : bool :=
  match I.sign_large (I.sub p i j) with Xeq | Xlt => true | _ => false end.

Definition positive (i : I.type) : bool :=
  match I.sign_strict i with Xgt => true | _ => false end.

Lemma at_most_correct i j x y : at_most i j = true -> x in_ i -> y in_ j -> x <= y.
Proof.
  intros H X Y. pose proof (in_sub i j x y X Y) as D. unfold at_most in H.
  pose proof (I.sign_large_correct (I.sub p i j)) as S.
  destruct (I.sign_large (I.sub p i j)); try discriminate.
  - apply S in D. injection D. lra.
  - destruct (S _ D) as [_ E]. simpl in E. lra.
Qed.

Lemma positive_correct i x : positive i = true -> x in_ i -> 0 < x.
Proof.
  intros H X. unfold positive in H. pose proof (I.sign_strict_correct i) as S.
  destruct (I.sign_strict i); try discriminate. destruct (S _ X) as [_ E]. exact E.
Qed.

(* --- the normal integral ---------------------------------------------------------------------- *)

(* All that is no farther from 0 than something in the ball. *)
Definition around (i : I.type) : I.type :=
  let size := I.abs i in I.meet (I.lower_extent size) (I.upper_extent (I.neg size)).

Lemma in_around i x y : x in_ i -> Rabs y <= Rabs x -> y in_ around i.
Proof.
  intros X H. apply in_abs in X. unfold Rabs at 1 in H. apply I.meet_correct.
  - apply (I.lower_extent_correct _ _ (Rabs x)); [exact X|]. destruct (Rcase_abs y); lra.
  - apply (I.upper_extent_correct _ _ (- Rabs x)); [exact (in_neg _ _ X)|].
    destruct (Rcase_abs y); lra.
Qed.

Definition bell_ball (z : I.type) : I.type :=
  I.exp p (I.div p (I.neg (I.sqr p z)) (I.fromZ p 2)).

Lemma in_bell i x : x in_ i -> bell x in_ bell_ball i.
Proof. intro X. apply in_exp, in_div, in_Z. apply in_neg, in_sqr, X. Qed.

Fixpoint series_ball (n : nat) (odd : Z) (square last sum : I.type) : I.type * I.type :=
  match n with
  | O => (sum, last)
  | S m => series_ball m (odd + 2) square
      (I.div p (I.mul p last square) (I.fromZ p odd)) (I.add p sum last)
  end.

Lemma in_series i x j n : x in_ i -> forall last sum, term x j in_ last -> series x j in_ sum ->
  let (s, r) := series_ball n (2 * Z.of_nat j + 3) (I.sqr p i) last sum in
  series x (j + n) in_ s /\ term x (j + n) in_ r.
Proof.
  intro X. revert j. induction n as [|n IH]; intros j last sum L S.
  - simpl. rewrite Nat.add_0_r. auto.
  - cbn [series_ball]. replace (j + Datatypes.S n)%nat with (Datatypes.S j + n)%nat by lia.
    replace (2 * Z.of_nat j + 3 + 2)%Z with (2 * Z.of_nat (Datatypes.S j) + 3)%Z by lia.
    apply IH.
    + cbn [term]. apply in_div, in_Z. apply in_mul; [exact L|]. apply in_sqr, X.
    + cbn [series]. apply in_add; assumption.
Qed.

Definition mass_ball (n : nat) (z : I.type) : I.type :=
  let (s, r) := series_ball n 3 (I.sqr p z) z (I.fromZ p 0) in
  I.add p (I.mul p (bell_ball z) s) (around r).

Lemma in_mass n i x : x in_ i -> mass x in_ mass_ball n i.
Proof.
  intro X. unfold mass_ball. pose proof (in_series i x 0 n X i (I.fromZ p 0) X (in_Z 0)) as H.
  change (2 * Z.of_nat 0 + 3)%Z with 3%Z in H. destruct (series_ball n 3 _ i _) as [s r].
  destruct H as [S R]. replace (mass x) with (bell x * series x n + (mass x - bell x * series x n)) by ring.
  apply in_add. apply in_mul; [apply in_bell, X|exact S].
  apply (in_around r (term x n)); [exact R|]. apply mass_by_series.
Qed.

(* --- the profile, times the square root of 2 pi ----------------------------------------------- *)

(* The end k of the integral, its normal mass, what is beyond, and the mass of any point from k on. *)
Record cut : Type :=
  Cut { terms_of : nat; end_of : I.type; mass_of : I.type; rest_of : I.type; beyond : I.type }.

Definition cut_at (n : nat) (k : Z) : cut :=
  let b := I.fromZ p k in let m := mass_ball n b in let r := I.div p (bell_ball b) b in
  Cut n b m r (I.meet (I.lower_extent (I.add p m r)) (I.upper_extent m)).

(* The series is of points within the ends. *)
Definition mass_within (c : cut) (z : I.type) : I.type :=
  if at_most (end_of c) z then beyond c
  else if at_most (end_of c) (I.neg z) then I.neg (beyond c)
  else mass_ball (terms_of c) z.

Lemma in_beyond n k x : (0 < k)%Z -> IZR k <= x -> mass x in_ beyond (cut_at n k).
Proof.
  intros Hk H. apply IZR_lt in Hk. pose proof (mass_ends _ _ Hk H) as [L U].
  pose proof (in_mass n _ _ (in_Z k)) as M. apply I.meet_correct.
  - apply (I.lower_extent_correct _ _ (mass (IZR k) + bell (IZR k) / IZR k)); [|exact U].
    apply in_add; [exact M|]. apply in_div; [apply in_bell|]; apply in_Z.
  - exact (I.upper_extent_correct _ _ _ M L).
Qed.

Lemma in_mass_within n k i x : (0 < k)%Z -> x in_ i -> mass x in_ mass_within (cut_at n k) i.
Proof.
  intros Hk X. unfold mass_within. destruct (at_most (end_of (cut_at n k)) i) eqn:A.
  - apply in_beyond; [exact Hk|]. exact (at_most_correct _ _ _ _ A (in_Z k) X).
  - destruct (at_most (end_of (cut_at n k)) (I.neg i)) eqn:B.
    + rewrite <- (Ropp_involutive x), mass_odd. apply in_neg, in_beyond; [exact Hk|].
      exact (at_most_correct _ _ _ _ B (in_Z k) (in_neg _ _ X)).
    + apply in_mass, X.
Qed.

Definition profile_ball (c : cut) (mu e : I.type) : I.type :=
  let a := I.sub p (I.div p e mu) (I.div p mu (I.fromZ p 2)) in
  if at_most a (end_of c) then
    I.add p (I.sub p (I.sub p (mass_of c) (mass_within c a))
               (I.mul p (I.exp p e) (I.sub p (mass_of c) (mass_within c (I.add p a mu)))))
            (rest_of c)
  else if at_most (end_of c) a then rest_of c else I.whole.

Lemma profile_correct n k i j mu e : (0 < k)%Z -> 0 < mu -> mu in_ i -> e in_ j ->
  exists v, v in_ profile_ball (cut_at n k) i j /\
    forall d, v <= d * sqrt (2 * PI) -> normal_profile mu e d.
Proof.
  intros Hk Hm M E. unfold profile_ball. pose proof (in_mass_within n k) as W.
  change (end_of (cut_at n k)) with (I.fromZ p k).
  set (a := I.sub p _ _). assert (A : start mu e in_ a) by (apply in_sub; apply in_div; auto; apply in_Z).
  clearbody a. pose proof (in_Z k) as K.
  destruct (at_most a (I.fromZ p k)) eqn:N.
  - exists (profile_bound mu e (IZR k)). split.
    + apply in_add; [|apply in_div; [apply in_bell|]; exact K].
      apply in_sub; [apply in_sub; [apply in_mass, K|apply W; assumption]|].
      apply in_mul; [apply in_exp, E|]. apply in_sub; [apply in_mass, K|].
      apply W; [exact Hk|]. apply in_add; assumption.
    + intros d. apply profile_near; [exact Hm|apply IZR_lt, Hk|]. apply (at_most_correct _ _ _ _ N A K).
  - destruct (at_most (I.fromZ p k) a) eqn:P.
    + exists (bell (IZR k) / IZR k). split. apply in_div; [apply in_bell|]; exact K.
      intros d H. apply IZR_lt in Hk. pose proof (at_most_correct _ _ _ _ P K A) as L.
      apply profile_far; [exact Hm|lra|]. eapply Rle_trans; [|exact H]. unfold Rdiv.
      apply Rmult_le_compat; [apply Rlt_le, bell_positive|apply Rlt_le, Rinv_0_lt_compat; lra| |].
      * unfold bell. apply exp_le. nra.
      * apply Rinv_le_contravar; assumption.
    + exists (if Rle_dec (start mu e) (IZR k) then profile_bound mu e (IZR k)
              else bell (start mu e) / start mu e). split.
      { apply I.whole_correct. }
      intro d. apply IZR_lt in Hk. destruct (Rle_dec (start mu e) (IZR k)).
      apply profile_near; auto. apply profile_far; auto. lra.
Qed.

End Precision.


(* --- a profile at a point --------------------------------------------------------------------- *)

Definition profile_below (bits : Z) (terms : nat) (last : Z) (mu e d : expression) : bool :=
  let p := F.PtoP (Z.to_pos bits) in
  let v := profile_ball p (cut_at p terms last) (ball_of p mu) (ball_of p e) in
  ((0 <? last)%Z && positive (ball_of p mu) &&
    at_most p v (I.mul p (ball_of p d) (I.sqrt p (I.mul p (I.fromZ p 2) (I.pi p)))))%bool.

Theorem profile_checked bits terms last mu e d : profile_below bits terms last mu e d = true ->
  normal_profile (real_of mu) (real_of e) (real_of d).
Proof.
  unfold profile_below. set (p := F.PtoP _). intro H.
  apply andb_prop in H as [H C]. apply andb_prop in H as [K M].
  apply Z.ltb_lt in K. apply positive_correct with (x := real_of mu) in M; [|apply in_ball].
  destruct (profile_correct p terms last _ _ _ _ K M (in_ball p mu) (in_ball p e)) as (v & V & T).
  apply T. refine (at_most_correct p _ _ _ _ C V _).
  apply in_mul; [apply in_ball|]. apply in_sqrt, in_mul; [apply in_Z|apply in_pi].
Qed.

Ltac written r :=
  match r with
  | ?a + ?b => let x := written a in let y := written b in constr:(Sum x y)
  | ?a - ?b => let x := written a in let y := written b in constr:(Difference x y)
  | ?a * ?b => let x := written a in let y := written b in constr:(Product x y)
  | ?a / ?b => let x := written a in let y := written b in constr:(Quotient x y)
  | - ?a => let x := written a in constr:(Opposite x)
  | / ?a => let x := written a in constr:(Inverse x)
  | ?a ^ ?k => let x := written a in constr:(Power x k)
  | sqrt ?a => let x := written a in constr:(Root x)
  | exp ?a => let x := written a in constr:(Exponential x)
  | ln ?a => let x := written a in constr:(Logarithm x)
  | PI => constr:(Circle)
  | Rpower ?a ?b => written (exp (b * ln a))
  | IZR ?z => constr:(Whole z)
  end.

(* The profile of numbers that are written out, by so many bits, terms and standard deviations. *)
Ltac profile bits terms last :=
  match goal with |- normal_profile ?mu ?e ?d =>
    let m := written mu in let x := written e in let y := written d in
    refine (profile_checked bits terms last m x y _); vm_cast_no_check (eq_refl true)
  end.
