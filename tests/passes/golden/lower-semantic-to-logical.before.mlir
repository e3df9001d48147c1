!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<shape=4, frame=4, batch=none>
!t2 = !ren.message<kind=static, shape=scalar>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %y: !t0, %w: !ren.message, %g: !ren.plaintext) -> !t1 {
    %0 = "ren.semantic.multiply"(%x, %y) : (!t0, !t0) -> !t1
    %1 = "ren.semantic.roll"(%x) <{shift = 1 : i64}> : (!t0) -> !t1
    %2 = "ren.semantic.multiply"(%w, %1) : (!ren.message, !t1) -> !t1
    %3 = "ren.semantic.add"(%0, %2) : (!t1, !t1) -> !t1
    %4 = "ren.semantic.roll"(%x) <{shift = 2 : i64}> : (!t0) -> !t1
    %5 = "ren.semantic.multiply"(%4, %y) : (!t1, !t0) -> !t1
    %6 = "ren.semantic.subtract"(%3, %5) : (!t1, !t1) -> !t1
    %7 = "ren.semantic.add"(%6, %w) : (!t1, !ren.message) -> !t1
    %8 = "ren.semantic.subtract"(%7, %y) : (!t1, !t0) -> !t1
    %9 = "ren.constant"() <{value = 3 : i64}> : () -> !t2
    %10 = "ren.semantic.multiply"(%y, %9) : (!t0, !t2) -> !t1
    %11 = "ren.semantic.add"(%8, %10) : (!t1, !t1) -> !t1
    %12 = "ren.constant"() <{value = 4.000000e+00 : f64}> : () -> !t2
    %13 = "ren.semantic.divide"(%11, %12) : (!t1, !t2) -> !t1
    %14 = "ren.semantic.add"(%x, %w) : (!t0, !ren.message) -> !t1
    %15 = "ren.semantic.add"(%13, %14) : (!t1, !t1) -> !t1
    %16 = "ren.semantic.multiply"(%15, %g) : (!t1, !ren.plaintext) -> !t1
    func.return %16 : !t1
  }
}
