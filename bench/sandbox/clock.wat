;; What a module of WebAssembly can do with time: WASI's clock and WASI's wait.
(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $time (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $now (result i64)
    (drop (call $time (i32.const 1) (i64.const 1) (i32.const 0)))
    (i64.load (i32.const 0)))
  ;; So many readings: the ns that they take.
  (func (export "read") (param $n i32) (result i64)
    (local $begun i64)
    (local.set $begun (call $now))
    (loop $again
      (drop (call $now))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i64.sub (call $now) (local.get $begun)))
  ;; A wait of so many ns, by a subscription to the monotonic clock: the ns that it takes.
  (func (export "sleep") (param $ns i64) (result i64)
    (local $begun i64)
    (i64.store (i32.const 64) (i64.const 0))
    (i32.store8 (i32.const 72) (i32.const 0))
    (i32.store (i32.const 80) (i32.const 1))
    (i64.store (i32.const 88) (local.get $ns))
    (i64.store (i32.const 96) (i64.const 1))
    (i32.store16 (i32.const 104) (i32.const 0))
    (local.set $begun (call $now))
    (drop (call $poll (i32.const 64) (i32.const 128) (i32.const 1) (i32.const 192)))
    (i64.sub (call $now) (local.get $begun))))
