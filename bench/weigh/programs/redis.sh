# A store of keys that answers 4,000 requests of four clients.
d=$(mktemp -d); redis-server --port 0 --unixsocket $d/s --save "" --dir $d >/dev/null & p=$!
until [ -S $d/s ]; do sleep 0.01; done
redis-benchmark -s $d/s -n 2000 -c 4 -q -t set,get >/dev/null; kill $p; wait $p; rm -rf $d
