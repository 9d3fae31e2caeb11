package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// proofs names, for each paragraph, bullet and row of docs/security.md, by the words with which it begins, the tests
// that prove it: FOLDER.TEST, or FOLDER.TestScripts/NAME for a script of e2e. "words" marks what is no promise.
var proofs = []struct{ begins, tests string }{
	{"What perigee trusts", "words"},
	{"The command line, and the environment", "words"},
	{"The program itself, the NIXL library", "words"},
	{"The launcher (Slurm", "words"},
	{"Scenarios, configurations, matrices, models", "lua.TestAccess internal/result.TestBombs internal/plaintext.TestEscape"},

	{"`perigee disagg run` runs the commands", "tools/disagg.TestNothingRuns tools/disagg/config.TestNamesInScripts tools/disagg/launch.TestHostileFields"},
	{"Jobs run their scripts from", "tools/disagg.TestFoldersOfOthers tools/disagg.TestNewFolders internal/regular.TestGuarded"},
	{"Completion (TAB)", "e2e.TestScripts/completion"},
	{"NIXL's library is loaded", "nixl/capi.TestFind nixl/capi.TestFindPassesOver"},
	{"UCX reads settings from", "nixl/capi.TestSettingsOfOthers nixl/capi.TestOtherSettings nixl/capi.TestSettingsThatComeLater nixl/capi.TestInRoot"},
	{"PMIx (under mpirun", "e2e/launchers.TestRanksKeepHomesFromPMIx"},
	{"A scenario is Lua without", "lua.TestScripts"},

	{"Ranks end within five seconds", "e2e/launchers.TestDeathOfTheLauncher e2e.TestKillLauncher e2e.TestTorchrunKill spmd/launch.TestRanksDoNotOutliveTheirLauncher"},
	{"Shared memory has no name", "internal/memfile.TestOpenRefuses internal/memfile.TestOpenAsUser spmd/host.TestOpen nixl/shm.TestStrangers nixl/capi.TestNoSegmentsForTheGroup nixl/capi.TestSweep e2e.TestSharedMemoryOfKilledRanks nixl/capi.TestSweepOld nixl/capi.TestSweepOldNeedsProof e2e/launchers.TestNextJobSweeps"},
	{"A world on one host listens", "e2e.TestListenersInsideAHost nixl/capi.TestListenersOfOneHost spmd/boot.TestListenFor"},
	{"Where no `PERIGEE_SECRET` is set", "spmd/boot.TestSecretOfTheSameUser spmd/boot.TestSecretOfAnotherUser spmd/boot.TestSecretInAFile spmd/boot.TestMungeCarriesTheSecret"},
	{"Logs of ranks are files", "internal/logs.TestPrivate internal/logs.TestRefused e2e.TestLogsKeepSecrets"},

	{"a scenario | files that options", "lua.TestAccess lua.TestOutputs lua.TestFilesOfTransfers"},
	{"a configuration | the same", "lua.TestMatricesOfConfigurations lua.TestAccess lua.TestFilesOfTransfers e2e.TestStorageOps tools/simulate.TestMatricesElsewhere"},
	{"a shipped scenario", "lua.TestAccess"},
	{"a configuration of `perigee disagg` in a dry run", "tools/disagg.TestTemplatesOutside"},
	{"a result that is repeated", "lua.TestRepeatReadsNoFiles lua.TestRepeatDoesNotOverwrite tools/run.TestRepeatAsksForIO e2e.TestScripts/rerun"},
	{"A default of an option", "lua.TestAccess"},
	{"Links are followed", "lua.TestAccess lua.TestAccessIsToWhatWasOpened lua.TestMatricesOfConfigurations"},
	{"`--allow-io` lifts", "lua.TestAccess lua.TestOutputs"},
	{"Where a file is written over a link", "internal/atomicfile.TestPlantedLinks internal/atomicfile.TestWriteFollowsLinks internal/atomicfile.TestTimedAttack internal/regular.TestLocateWithStrangers nixl/device.TestPlantedFile"},
	{"What `perigee disagg` appends to", "tools/disagg.TestPlantedFiles tools/disagg.TestPlantedPlaces"},
	{"The logs and the configuration in the folder of a case", "tools/disagg.TestLinksOutOfCases"},
	{"`perigee disagg clean` and `--resume`", "tools/disagg/batch.TestForeignJobs tools/disagg/batch.TestNumberOfAnother e2e/disagg.TestCleanLeavesForeignJobs"},
	{"Scenarios, configurations, matrices, loads", "tools/run.TestScriptIsAFile internal/conf.TestLoad lua.TestMatricesAreFiles internal/regular.TestRead tools/matgen.TestReadISLList tools/ep.TestLoadsAreFiles internal/result.TestPipes tools/disagg.TestPipesInFolders"},

	{"Each bound is checked", "lua.TestSourceBombs internal/result.TestBombs"},
	{"scenario: text |", "lua.TestSourceBombs"},
	{"scenario: nesting", "lua.TestSourceBombs"},
	{"scenario: text of a list", "lua.TestSourceBombs lua.TestLongestList"},
	{"scenario: coroutines", "lua.TestSourceBombs"},
	{"scenario: functions", "lua.TestSourceBombs"},
	{"scenario: each text that it makes", "lua.TestSourceBombs lua.TestConcat"},
	{"scenario: patterns", "lua.TestSourceBombs lua.TestEndlessSearches"},
	{"scenario, result: own metrics", "lua.TestTooManyOptions internal/result.TestTooManyMetrics"},
	{"scenario: options", "lua.TestTooManyOptions"},
	{"scenario: recorded runs", "lua.TestRunsThatCannotFit lua.TestKeptAsExpected e2e.TestScripts/sizes"},
	{"scenario: keys of a list", "lua.TestSourceBombs"},
	{"scenario: `about`", "lua.TestSourceBombs"},
	{"scenario, result that is repeated: ranks", "spmd/launch.TestLimitOnMemory"},
	{"scenario: its function `ranks`", "lua.TestRanksAreBounded"},
	{"scenario: its top level", "lua.TestTopLevelIsBounded lua.TestEndlessLibraryFunction"},
	{"scenario: what it keeps", "tools/run.TestWatchMemory tools/run.TestWatchMemoryOfLimitedProcess e2e.TestScenarioFillsTheMemory e2e.TestScenarioFillsItsLimit"},
	{"`iters`, `warmup_iters`", "e2e.TestBadInput"},
	{"scenario: values in a table", "lua.TestMistakes"},
	{"configuration: text, values", "internal/conf.TestSizeIsBounded internal/conf.TestParseRefuses"},
	{"YAML: directives", "internal/conf.TestTimeIsBounded"},
	{"TOML: keys", "internal/conf.TestTimeIsBounded"},
	{"YAML: what aliases", "internal/conf.TestAliasesAreBounded"},
	{"matrix: ranks, cells", "internal/traffic/matrix.TestCellsAreBounded internal/traffic/matrix.TestCellsOfTextAreBounded internal/traffic/matrix.TestSizes"},
	{"scenario, result: name", "internal/result.TestLongNames lua.TestLongNamesAreRefused"},
	{"scenario, result: labels", "internal/result.TestReadRefusesLabels lua.TestLabelsAreRefused"},
	{"result: rows of", "tools/inspect.TestRowsAreBounded"},
	{"result: JSON text", "internal/result.TestBombs internal/result.TestNoBombs internal/result.TestTextIsBounded"},
	{"result: white space", "internal/result.TestWhiteSpaceIsBounded"},
	{"result: memory", "internal/result.TestBombs"},
	{"results of one `perigee report`", "internal/result.TestBombsTogether"},
	{"result: window", "internal/result.TestWindowIsBounded"},
	{"list of lengths, trace", "tools/matgen.TestTooManyMatrices"},
	{"configuration of `perigee disagg`: sweep", "tools/disagg/config.TestSweepBombs"},
	{"configuration of `perigee disagg`: job", "tools/disagg/config.TestTooManyGPUs tools/disagg/launch.TestBombs tools/disagg.TestDryRunOfManyCases"},
	{"result folder of `perigee disagg`", "tools/disagg.TestPipesInFolders tools/disagg/record.TestLongCSV tools/disagg/batch.TestLedgerCut tools/disagg/batch.TestLedgerIsBounded tools/disagg.TestVerdictsAreBounded"},
	{"configuration of `perigee disagg`: levels", "tools/disagg/config.TestNamesAreBounded"},
	{"log of `perigee disagg`", "tools/disagg/benchlog.TestLevelsAreBounded tools/disagg/accuracy.TestScoresAreBounded tools/disagg.TestReasonsAreBounded tools/disagg/config.TestNamesAreBounded"},
	{"configuration of `perigee disagg`: `extractor_pattern`", "tools/disagg/pattern.TestLongPrograms"},
	{"folder of `perigee sweep`", "tools/sweep/load.TestFarTooManyFiles tools/sweep/load.TestFarTooDeep"},
	{"report of `perigee sweep`", "tools/sweep/load.TestBadReports tools/sweep/load.TestManyEngines"},
	{"error: its text", "internal/cli.TestLongErrorsAreShortened"},
	{"configuration of `perigee simulate`", "tools/simulate.TestMemoryIsChecked tools/simulate.TestEstimate tools/simulate.TestShardsTakeNoMemory"},
	{"result that is repeated: ranks", "tools/run.TestRepeatOfManyRanks"},
	{"sizes in bytes", "internal/size.TestParseRefuses"},
	{"`--timeout` |", "tools/run.TestTimeoutIsSane"},
	{"Before Go's runtime starts", "internal/early.TestDescriptors internal/early.TestMemoryLimit internal/early.TestProcsAreBounded spmd/launch.TestLimitOnThreads"},
	{"Where Go's runtime gets no memory", "internal/early.TestLimits e2e.TestLimitsAtStart e2e.TestScenarioFillsItsLimit"},
	{"A crash in NIXL", "e2e.TestCrashOfNIXL"},
	{"A result in which", "internal/result.TestReadRefuses"},
	{"A result of perigee's own", "internal/result.TestNoBombs internal/result.TestEqualSamples internal/result.TestBombs lua.TestSourceBombs"},

	{"Names, notes, values and texts", "internal/plaintext.TestEscape internal/plaintext.TestCell internal/plaintext.TestWriter internal/plaintext.TestJSONWriter internal/page.TestPagesArePlain internal/cli.TestErrorsArePlain internal/table.TestJSONIsPlain tools/compare.TestHostileResults tools/report.TestTextOfOddResults e2e.TestRawTextOnTerminal tools/inspect.TestHostileResult tools/sweep.TestHostileReports tools/disagg.TestHostileTexts tools/disagg.TestHostileRunLog tools/disagg.TestHostileVerdict lua.TestPrintIsPlain tools/kvbench.TestHostileNames tools/run.TestHelpIsPlain"},

	{"Trusted are the processes", "words"},
	{"connects to a rank without", "spmd/wire.TestStrangersDisturbNobody spmd/wire.TestSiege spmd/wire.TestMoreHalfOpenConnectionsThanTheListenerHolds spmd/wire.TestHandshake spmd/wire.TestProvenConnectionsStay spmd/wire.TestUnansweredHandshakes"},
	{"records a handshake", "spmd/wire.TestRecordedHandshakesAreWorthless"},
	{"poses as rank 0", "spmd/wire.TestHandshake spmd.TestWrongSecretIsRefusedOnBothSides"},
	{"takes the port of rank 0", "spmd/boot.TestOccupiedPorts spmd/boot.TestStrangerBetweenThePorts"},
	{"writes addresses into the store", "spmd/boot.TestForeignAgentStore spmd/boot.TestPlacesIn spmd/boot.FuzzAgentStore"},
	{"answers, under plain Slurm", "spmd/boot.TestMungeCarriesTheSecret"},
	{"leads a connection", "spmd/boot.TestLinksOfOtherPlaces spmd/wire.TestHandshake"},
	{"alters, repeats", "spmd/wire.TestForgedFramesAreFound spmd/wire.TestForgedRecordsAreFound spmd/boot/watch.TestForgedWordsOfTheCoordinator spmd/boot/watch.TestForgedFirstWords"},
	{"alters a handshake", "spmd/boot.TestAlteredHandshake spmd.TestWrongSecretIsRefusedOnBothSides"},
	{"closes a connection between two hosts", "spmd/boot/watch.TestWhatEndsAConnection e2e/hosts.TestKill e2e/hosts.TestKillRankZero"},
	{"moves the bytes", "spmd/wire.TestKeysDiffer spmd/wire.TestForgedFramesAreFound"},
	{"holds back everything", "e2e/hosts.TestCutBetweenHosts e2e/hosts.TestCutHost"},
	{"reads along", "words"},
	{"A secret is one job's", "spmd/wire.TestConnCarriesAStream spmd/wire.TestForgedRecordsAreFound spmd/wire.TestKeysDiffer"},
	{"**Not protected**", "e2e.TestTorchrunSecret spmd/boot.TestSecretsOfTorchrun"},
}

// items takes a text in Markdown apart: paragraphs, bullets, and the rows of tables without their headers.
func items(text string) (list []string) {
	lines := strings.Split(text, "\n")
	open := false // the next line continues the last item
	for i, line := range lines {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			open = false
		case strings.HasPrefix(line, "|---"):
		case strings.HasPrefix(line, "|"):
			if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---") {
				continue
			}
			list, open = append(list, strings.TrimPrefix(line, "| ")), false
		case strings.HasPrefix(line, "- "):
			list, open = append(list, line[2:]), true
		case open:
			list[len(list)-1] += " " + strings.TrimSpace(line)
		default:
			list, open = append(list, line), true
		}
	}
	return list
}

// Every line of docs/security.md is proven by tests that exist, and every proof is of a line.
func TestSecurityIsProven(t *testing.T) {
	proven := make([]bool, len(proofs))
	for _, item := range items(string(read(t, "docs/security.md"))) {
		found := 0
		for i, p := range proofs {
			if strings.HasPrefix(item, p.begins) {
				found, proven[i] = found+1, true
			}
		}
		if found != 1 {
			t.Errorf("%d entries of proofs are for %.80q, want 1", found, item)
		}
	}
	for i, p := range proofs {
		if !proven[i] {
			t.Errorf("docs/security.md has nothing that begins with %q", p.begins)
		}
		if p.tests == "words" {
			continue
		}
		for name := range strings.FieldsSeq(p.tests) {
			if !hasTest(t, name) {
				t.Errorf("%s: there is no test %s", p.begins, name)
			}
		}
	}
}

// hasTest reports whether there is a test FOLDER.NAME, and its script where it names one.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	folder, test, ok := strings.Cut(name, ".")
	if !ok {
		return false
	}
	test, script, _ := strings.Cut(test, "/")
	if script != "" {
		if _, err := os.Stat(filepath.Join(root, folder, "testdata/script", script+".txtar")); err != nil {
			return false
		}
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func ` + test + `\(`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if declared.Match(data) {
			return true
		}
	}
	return false
}
