# A web server that answers 200 requests.
d=$(mktemp -d); cat > $d/c <<X
daemon off; error_log /dev/null; pid $d/p; worker_processes 1; user root;
events {}
http {
  access_log off;
  client_body_temp_path $d/b; proxy_temp_path $d/x; fastcgi_temp_path $d/f; uwsgi_temp_path $d/u; scgi_temp_path $d/s;
  server { listen unix:$d/sock; location / { return 200 hello; } }
}
X
nginx -c $d/c & p=$!
until [ -S $d/sock ]; do sleep 0.01; done
curl -s --unix-socket $d/sock "http://x/[1-200]" >/dev/null
kill $p; wait $p; rm -rf $d
