// Sbom prints the software bill of materials of a Go binary, as CycloneDX JSON: every module that the linker put into
// it, by version and package URL.
//
//	go run ./internal/kit/sbom bin/perigee
//
// packaging/dist calls it for the archives that it makes. It is a program by itself, so that perigee does not link the
// library that writes CycloneDX. The facts come from the build information in the binary and not from go.mod, which
// also lists modules for tests.
package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	e := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
	return e.SetPretty(true).Encode(bom(info))
}

// bom lists the modules of a binary and the Go release that built it.
func bom(info *debug.BuildInfo) *cdx.BOM {
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Component: &cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: info.Path, Version: info.Main.Version,
	}}
	components := []cdx.Component{component("std", info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(m.Path, m.Version))
	}
	b.Components = &components
	return b
}

func component(path, version string) cdx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}
