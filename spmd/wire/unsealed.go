//go:build unsealed

package wire

const sealed = false
