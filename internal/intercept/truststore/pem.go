package truststore

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
)

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// blocks returns the contents of the certificate blocks of a PEM file.
func blocks(text []byte) (found [][]byte) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return found
		}
		if strings.HasSuffix(block.Type, "CERTIFICATE") {
			found = append(found, block.Bytes)
		}
	}
}

// certificates returns the certificates of a PEM file that can be parsed.
func certificates(text []byte) (found []*x509.Certificate) {
	for _, der := range blocks(text) {
		if c, err := x509.ParseCertificate(der); err == nil {
			found = append(found, c)
		}
	}
	return found
}
