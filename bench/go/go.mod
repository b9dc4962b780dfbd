module vtare/bench

go 1.23

require vtare/clock v0.0.0

replace vtare/clock => ../../bindings/go
