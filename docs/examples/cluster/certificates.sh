#!/bin/sh
# certificates.sh FOLDER: a certificate authority of your own, one certificate for all machines of the cluster, and the configuration
# of Dask that names them. Whoever has key.pem can run code on every worker: it belongs on these machines only, readable by nobody else.
set -eu
umask 077
mkdir -p "$1"
cd "$1"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj "/CN=autotune cluster" \
  -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca-key.pem -out ca.pem
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=autotune" -keyout key.pem -out request.pem
printf 'basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n' > extensions.txt
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 365 -extfile extensions.txt -out cert.pem
rm request.pem extensions.txt
pair="{cert: $PWD/cert.pem, key: $PWD/key.pem}"
cat > dask.yaml << END
distributed:
  comm:
    tls: {ca-file: $PWD/ca.pem, scheduler: $pair, worker: $pair, client: $pair}
END
