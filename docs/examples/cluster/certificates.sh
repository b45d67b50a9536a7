#!/bin/sh
# A certificate authority of your own, and one certificate for all machines of the cluster. Whoever has key.pem can run code on
# every worker: it belongs on these machines only, readable by nobody else.
set -eu
umask 077
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj "/CN=autotune cluster" \
  -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca-key.pem -out ca.pem
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=autotune" -keyout key.pem -out request.pem
printf 'basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n' > extensions.txt
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 365 -extfile extensions.txt -out cert.pem
rm request.pem extensions.txt
