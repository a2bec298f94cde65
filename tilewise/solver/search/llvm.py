"""Functions of a narrow kind of Python as machine code (native.py). The solver's only door to llvmlite.

In: a function. Out: the same, compiled.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

INT = ir.IntType(64)
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def compiled(python: Callable[..., int], arrays: list[bool]) -> tuple[Callable[..., int], object]:
    """A function's machine code, and what keeps it alive. `arrays` says which parameters are."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)
    module = llvm.parse_assembly(str(_Writer(python, arrays).module))
    module.verify()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    few = llvm.create_new_module_pass_manager()  # All of LLVM's would take ten times as long.
    few.add_sroa_pass()
    few.add_instruction_combine_pass()
    few.add_simplify_cfg_pass()
    few.run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    arguments = [ctypes.c_void_p if array else ctypes.c_int64 for array in arrays]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(engine.get_function_address("f")), engine


class _Writer(ast.NodeVisitor):
    """Writes a function as LLVM IR: a stack slot per variable (LLVM turns them into registers)."""

    def __init__(self, python: Callable[..., int], arrays: list[bool]) -> None:
        tree = ast.parse(textwrap.dedent(inspect.getsource(python))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        self.module = ir.Module()
        kinds = [INT.as_pointer() if array else INT for array in arrays]
        function = ir.Function(self.module, ir.FunctionType(INT, kinds), "f")
        self.entry = ir.IRBuilder(function.append_basic_block())
        self.b = ir.IRBuilder(function.append_basic_block())
        self.pointers: dict[str, Any] = {}
        self.slots: dict[str, Any] = {}
        start = self.b.block
        for name, argument, array in zip(tree.args.args, function.args, arrays, strict=True):
            if array:
                argument.add_attribute("noalias")
                self.pointers[name.arg] = argument
            else:
                self.b.store(argument, self.slot(name.arg))
        for statement in tree.body:
            self.visit(statement)
        self.entry.branch(start)

    def generic_visit(self, node: ast.AST) -> Any:
        raise AssertionError(f"line {getattr(node, 'lineno', '?')}: {type(node).__name__} is not of the narrow kind")

    def slot(self, name: str) -> Any:
        if name not in self.slots:
            self.slots[name] = self.entry.alloca(INT)
        return self.slots[name]

    def block(self) -> Any:
        return self.b.append_basic_block()

    def body(self, statements: list[ast.stmt], then: Any) -> None:
        for statement in statements:
            self.visit(statement)
        if not self.b.block.is_terminated:
            self.b.branch(then)

    def place(self, node: ast.Subscript) -> Any:
        assert isinstance(node.value, ast.Name)
        return self.b.gep(self.pointers[node.value.id], [self.visit(node.slice)], inbounds=True)

    def target(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Subscript):
            return self.place(node)
        assert isinstance(node, ast.Name)
        return self.slot(node.id)

    # Statements

    def visit_Expr(self, node: ast.Expr) -> None:
        assert isinstance(node.value, ast.Constant)  # a docstring

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        self.b.store(value, self.target(node.targets[0]))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        place = self.target(node.target)
        self.b.store(self.arithmetic(node.op, self.b.load(place), self.visit(node.value)), place)

    def visit_Return(self, node: ast.Return) -> None:
        assert node.value is not None
        self.b.ret(self.visit(node.value))

    def visit_If(self, node: ast.If) -> None:
        yes, no, end = self.block(), self.block(), self.block()
        self.b.cbranch(self.visit(node.test), yes, no)
        self.b.position_at_end(yes)
        self.body(node.body, end)
        self.b.position_at_end(no)
        self.body(node.orelse, end)
        self.b.position_at_end(end)

    def loop(self, test: Callable[[], Any], statements: list[ast.stmt], after: Callable[[], None]) -> None:
        head, inside, end = self.block(), self.block(), self.block()
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(test(), inside, end)
        self.b.position_at_end(inside)
        for statement in statements:
            self.visit(statement)
        after()
        self.b.branch(head)
        self.b.position_at_end(end)

    def visit_While(self, node: ast.While) -> None:
        self.loop(lambda: self.visit(node.test), node.body, lambda: None)

    def visit_For(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range"
        bounds = [self.visit(bound) for bound in node.iter.args]
        first, last = (INT(0), *bounds) if len(bounds) == 1 else bounds
        slot = self.target(node.target)
        self.b.store(first, slot)
        self.loop(
            lambda: self.b.icmp_signed("<", self.b.load(slot), last),
            node.body,
            lambda: self.b.store(self.b.add(self.b.load(slot), INT(1)), slot),
        )

    # Expressions

    def visit_Name(self, node: ast.Name) -> Any:
        return self.b.load(self.slots[node.id])

    def visit_Constant(self, node: ast.Constant) -> Any:
        return INT(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self.b.load(self.place(node))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        assert isinstance(node.op, ast.USub)
        return self.b.neg(self.visit(node.operand))

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self.arithmetic(node.op, self.visit(node.left), self.visit(node.right))

    def arithmetic(self, op: ast.operator, a: Any, b: Any) -> Any:
        if isinstance(op, ast.FloorDiv):  # of numbers that are not negative
            return self.b.udiv(a, b)
        return {ast.Add: self.b.add, ast.Sub: self.b.sub, ast.Mult: self.b.mul}[type(op)](a, b)

    def visit_Compare(self, node: ast.Compare) -> Any:
        assert len(node.ops) == 1
        sign = _COMPARE[type(node.ops[0])]
        return self.b.icmp_signed(sign, self.visit(node.left), self.visit(node.comparators[0]))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.b.select(self.visit(node.test), self.visit(node.body), self.visit(node.orelse))
