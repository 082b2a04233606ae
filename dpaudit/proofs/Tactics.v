(* Arithmetic of exported certificates. *)

Require Import Nsatz Reals Lra Lia ZArith.
From Coquelicot Require Import Coquelicot.
From Interval Require Import Tactic.
From DPAudit Require Import Laws Composition Normal Nodes Theorems.
Open Scope R_scope.

Lemma root_power b q : 0 < b -> (0 < q)%Z -> Rpower b (/ IZR q) ^ Z.to_nat q = b.
Proof.
  intros B Q. rewrite <- Rpower_pow by apply exp_pos. rewrite Rpower_mult, INR_IZR_INZ, Z2Nat.id by lia.
  rewrite Rinv_l, Rpower_1; auto. apply not_0_IZR. lia.
Qed.

Ltac computed := unfold Rpower; interval with (i_prec 90).

Ltac sign := first [lra | computed].

Ltac without_root r :=
  lazymatch r with context [sqrt _] => fail | context [Rpower _ _] => fail | _ => idtac end.

(* Every root as a positive number with its equation: first roots in which there is no other. *)
Ltac roots :=
  repeat match goal with
  | |- context [sqrt ?r] =>
      without_root r; let E := fresh "equation" in let P := fresh "positive" in
      assert (E : sqrt r ^ 2 = r) by (apply pow2_sqrt; sign);
      assert (P : 0 < sqrt r) by (apply sqrt_lt_R0; sign);
      let x := fresh "root" in generalize dependent (sqrt r); intros x E P
  | |- context [Rpower ?r (/ IZR ?q)] =>
      without_root r; let E := fresh "equation" in let P := fresh "positive" in
      assert (E : Rpower r (/ IZR q) ^ Z.to_nat q = r)
        by (apply root_power; [sign | reflexivity]);
      assert (P : 0 < Rpower r (/ IZR q)) by apply exp_pos;
      let x := fresh "root" in generalize dependent (Rpower r (/ IZR q)); intros x E P;
      cbv [Z.to_nat Pos.to_nat Pos.iter_op Init.Nat.add] in E
  end.

Ltac nonzero :=
  repeat split; first [lra | apply Rgt_not_eq; computed | apply Rlt_not_eq; computed | nra].

(* An equation of algebraic numbers: it follows from those of their roots. *)
Ltac algebraic :=
  try apply Req_le; roots; field_simplify_eq;
  [ repeat match goal with P : _ < _ |- _ => clear P end; cbn [Rpow_def.pow] in *; nsatz
  | nonzero .. ].

(* A positive product or root, without interval arithmetic. *)
Ltac positive :=
  first
    [ lra | apply exp_pos | apply sqrt_lt_R0; positive | apply Rmult_lt_0_compat; positive
    | apply Rdiv_lt_0_compat; positive | apply Rinv_0_lt_compat; positive ].

(* An equality or inequality of numbers. *)
Ltac number :=
  first
    [ lra
    | solve [positive]
    | solve [field; nonzero]
    | computed
    | solve [algebraic]
    | solve [left; computed] ].
