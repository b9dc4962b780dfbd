module vtare/clock

go 1.23
