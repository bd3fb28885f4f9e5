package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"perigee/internal/intercept/truststore"
	"perigee/internal/testing/perigeetest/await"
)

// mainInRoot is main with the system's trust store in another root directory, so that no script
// changes that of this machine. A script without that variable has to be in a mount namespace of
// its own.
func mainInRoot() {
	if root := os.Getenv("PERIGEE_TEST_ROOT"); root != "" {
		machine = func() truststore.Machine {
			m := truststore.Host()
			m.Root = root
			return m
		}
	}
	main()
}

// tlsproof CA KEY HOST serves a certificate for a host that the CA signs, whether it may or not,
// and prints which clients accept it with the roots of the system: Go, curl and OpenSSL.
func tlsproof() {
	if err := prove(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func prove(caFile, keyFile, host string) error {
	leaf, err := sign(caFile, keyFile, host)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{leaf}}, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })}
	go func() { _ = server.ServeTLS(l, "", "") }()
	defer func() { _ = server.Close() }()
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)

	conn, err := tls.Dial("tcp", address, &tls.Config{ServerName: host})
	printResult("go", err)
	if err == nil {
		_ = conn.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	printResult("curl", exec.CommandContext(ctx, "curl", "-sSf", "--noproxy", "*", "--resolve", host+":"+port+":127.0.0.1", "https://"+net.JoinHostPort(host, port)+"/").Run())
	printResult("openssl", exec.CommandContext(ctx, "openssl", "s_client", "-connect", address, "-servername", host, "-verify_hostname", host, "-verify_return_error").Run())
	return nil
}

func printResult(client string, err error) {
	word := "accepts"
	if err != nil {
		word = "refuses"
		fmt.Fprintln(os.Stderr, client+":", err)
	}
	fmt.Println(client, word)
}

func sign(caFile, keyFile, host string) (leaf tls.Certificate, err error) {
	pair, err := tls.LoadX509KeyPair(caFile, keyFile)
	if err != nil {
		return leaf, err
	}
	ca, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return leaf, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return leaf, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, pair.PrivateKey)
	if err != nil {
		return leaf, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return leaf, err
	}
	return tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}
