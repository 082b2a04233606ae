(* Arithmetic of exported certificates. *)

Require Import Reals Lra.
From Coquelicot Require Import Coquelicot.
From Interval Require Import Tactic.
From DPAudit Require Import Laws Composition Normal Nodes Theorems.
Open Scope R_scope.

(* Every square root as a positive number with its square.  Where the square is no plain number, it
   is written by its root instead. *)
Ltac roots :=
  repeat match goal with
  | |- context [sqrt ?r] =>
      let x := fresh "root" in let H := fresh "square" in let P := fresh "positive" in
      assert (H : sqrt r * sqrt r = r) by (apply sqrt_sqrt; first [lra | interval]);
      assert (P : 0 < sqrt r) by (apply sqrt_lt_R0; first [lra | interval]);
      generalize dependent (sqrt r); intros x H P;
      match r with context [ln _] => rewrite <- H | _ => idtac end
  end.

Ltac squared :=
  repeat match goal with
  | H : ?x * ?x = ?r |- context [?x ^ 2] => replace (x ^ 2) with r by (rewrite <- H; ring)
  end.

Ltac nonzero := repeat split; first [lra | apply Rgt_not_eq; interval | apply Rlt_not_eq; interval].

(* A positive product or root, without interval arithmetic. *)
Ltac positive :=
  first
    [ lra | apply sqrt_lt_R0; positive | apply Rmult_lt_0_compat; positive
    | apply Rdiv_lt_0_compat; positive | apply Rinv_0_lt_compat; positive ].

(* An equality or inequality of numbers. *)
Ltac number :=
  first
    [ lra
    | solve [positive]
    | solve [field; nonzero]
    | solve [roots; lra]
    | solve [roots; field_simplify_eq; [squared; lra | nonzero]]
    | interval with (i_prec 90)
    | solve [left; interval with (i_prec 90)] ].
