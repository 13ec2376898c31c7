// Volcano, of which the CRDs are used. To move to another version: change it, and `go mod download -x` writes go.sum.
module bireme.dev/hack/engines/volcano

go 1.26.0

require volcano.sh/volcano v1.15.0
