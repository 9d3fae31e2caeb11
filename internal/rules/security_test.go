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
	{"The command line and the environment", "words"},
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

	{"Ranks end within 5 s", "e2e/launchers.TestDeathOfTheLauncher e2e.TestKillLauncher e2e.TestTorchrunKill spmd/launch.TestRanksDoNotOutliveTheirLauncher"},
	{"Shared memory has no name", "internal/memfile.TestOpenRefuses internal/memfile.TestOpenAsUser spmd/host.TestOpen nixl/shm.TestStrangers nixl/capi.TestNoSegmentsForTheGroup"},
	{"UCX removes the name", "nixl/capi.TestSweep e2e.TestSharedMemoryOfKilledRanks nixl/capi.TestSweepOld nixl/capi.TestSweepOldNeedsProof e2e/launchers.TestNextJobSweeps"},
	{"A world on one host listens", "e2e.TestListenersInsideAHost nixl/capi.TestListenersOfOneHost spmd/boot.TestListenFor"},
	{"Where `PERIGEE_SECRET` is not set", "spmd/boot.TestSecretOfTheSameUser spmd/boot.TestSecretOfAnotherUser spmd/boot.TestSecretInAFile spmd/boot.TestMungeCarriesTheSecret"},
	{"Logs of ranks are files", "internal/logs.TestPrivate internal/logs.TestRefused e2e.TestLogsKeepSecrets"},

	{"who: a scenario | files that options", "lua.TestAccess lua.TestOutputs lua.TestFilesOfTransfers"},
	{"who: a configuration | the same", "lua.TestMatricesOfConfigurations lua.TestAccess lua.TestFilesOfTransfers e2e.TestStorageOps tools/simulate.TestMatricesElsewhere"},
	{"who: a shipped scenario", "lua.TestAccess"},
	{"who: a configuration of `perigee disagg` in a dry run", "tools/disagg.TestTemplatesOutside"},
	{"who: a result that is repeated", "lua.TestRepeatReadsNoFiles lua.TestRepeatDoesNotOverwrite tools/run.TestRepeatAsksForIO e2e.TestScripts/rerun"},
	{"A default of an option", "lua.TestOutputs lua.TestOptions tools/run.TestDefaultsAreNotWritten"},
	{"Hidden files and folders", "internal/regular.TestHidden lua.TestAccess"},
	{"Links are followed", "lua.TestAccess lua.TestAccessIsToWhatWasOpened lua.TestMatricesOfConfigurations"},
	{"`--allow-io` lifts", "lua.TestAccess lua.TestOutputs"},
	{"Where a file is written over a link", "internal/atomicfile.TestPlantedLinks internal/atomicfile.TestWriteFollowsLinks internal/atomicfile.TestOpenFilesAreWrittenToAsTheyStand internal/atomicfile.TestOpenFilesOfOthers internal/atomicfile.TestTimedAttack internal/regular.TestLocateWithStrangers nixl/device.TestPlantedFile"},
	{"What `perigee disagg` appends to", "tools/disagg.TestPlantedFiles tools/disagg.TestPlantedPlaces"},
	{"In the folder of a case, job scripts", "tools/disagg/launch.TestWrite tools/disagg/launch.TestPrivateVariables tools/disagg/config.TestMasked tools/disagg.TestSecretsInResults"},
	{"The logs and the configuration in the folder of a case", "tools/disagg.TestLinksOutOfCases"},
	{"`perigee disagg clean` and `--resume`", "tools/disagg/batch.TestForeignJobs tools/disagg/batch.TestNumberOfAnother e2e/disagg.TestCleanLeavesForeignJobs"},
	{"Scenarios, configurations, matrices, loads", "tools/run.TestScriptIsAFile internal/conf.TestLoad lua.TestMatricesAreFiles internal/regular.TestRead tools/matgen.TestReadISLList tools/ep.TestLoadsAreFiles internal/result.TestPipes tools/run.TestRepeatOfAPipe tools/disagg.TestPipesInFolders"},

	{"Each bound is checked", "lua.TestSourceBombs internal/result.TestBombs"},
	{"scenario: text |", "lua.TestSourceBombs"},
	{"scenario: nesting", "lua.TestSourceBombs"},
	{"scenario: size of a list's text", "lua.TestSourceBombs lua.TestLongestList"},
	{"scenario: coroutines", "lua.TestSourceBombs"},
	{"scenario: functions", "lua.TestSourceBombs"},
	{"scenario: each text that it makes", "lua.TestSourceBombs lua.TestConcat"},
	{"scenario: patterns", "lua.TestSourceBombs lua.TestEndlessSearches"},
	{"scenario: its own metrics", "lua.TestTooManyOptions internal/result.TestTooManyMetrics"},
	{"scenario: options", "lua.TestTooManyOptions"},
	{"scenario: recorded runs", "lua.TestRunsThatCannotFit lua.TestKeptAsExpected e2e.TestScripts/sizes"},
	{"scenario: keys of a list", "lua.TestSourceBombs"},
	{"scenario: `about`", "lua.TestSourceBombs"},
	{"scenario: ranks that it asks for", "spmd/launch.TestLimitOnMemory"},
	{"scenario: its function `ranks`", "lua.TestRanksAreBounded"},
	{"scenario: its top level", "lua.TestTopLevelIsBounded lua.TestEndlessLibraryFunction"},
	{"scenario: what it keeps", "tools/run.TestWatchMemory tools/run.TestWatchMemoryOfLimitedProcess e2e.TestScenarioFillsTheMemory e2e.TestScenarioFillsItsLimit"},
	{"scenario: progress bars", "lua.TestOpenBarsAreBounded"},
	{"scenario: `iters`, `warmup_iters`", "e2e.TestBadInput"},
	{"scenario: values in a table", "lua.TestMistakes"},
	{"other inputs of a run: configuration: text, values", "internal/conf.TestSizeIsBounded internal/conf.TestParseRefuses"},
	{"other inputs of a run: YAML: directives", "internal/conf.TestTimeIsBounded"},
	{"other inputs of a run: TOML: keys", "internal/conf.TestTimeIsBounded"},
	{"other inputs of a run: YAML: what aliases", "internal/conf.TestAliasesAreBounded"},
	{"other inputs of a run: matrix: ranks, cells", "internal/traffic/matrix.TestCellsAreBounded internal/traffic/matrix.TestCellsOfTextAreBounded internal/traffic/matrix.TestReadNPYIsBounded internal/traffic/matrix.TestSizes"},
	{"other inputs of a run: name", "internal/result.TestLongNames lua.TestLongNamesAreRefused"},
	{"other inputs of a run: labels", "internal/result.TestReadRefusesLabels lua.TestLabelsAreRefused"},
	{"result: rows of", "tools/inspect.TestRowsAreBounded"},
	{"other inputs of a run: loads of", "internal/moe.TestLoadsAreBounded"},
	{"result: its file", "internal/result.TestHoles"},
	{"`perigee disagg` and `sweep`: configurations of one command", "tools/disagg/config.TestTogether tools/sweep/load.TestLargeFiles"},
	{"result: its JSON text", "internal/result.TestBombs internal/result.TestNoBombs internal/result.TestTextIsBounded"},
	{"result: white space", "internal/result.TestWhiteSpaceIsBounded"},
	{"result: its memory", "internal/result.TestBombs"},
	{"result: results of one `perigee report`", "internal/result.TestBombsTogether"},
	{"result: window", "internal/result.TestWindowIsBounded"},
	{"other inputs of a run: list of lengths, trace", "tools/matgen.TestTooManyMatrices internal/trace.TestBounds"},
	{"other inputs of a run: trace of", "internal/trace.TestBounds internal/trace.TestErrors"},
	{"`perigee disagg` and `sweep`: configuration: sweep", "tools/disagg/config.TestSweepBombs e2e.TestPeakOfConfigurations"},
	{"`perigee disagg` and `sweep`: configuration: job", "tools/disagg/config.TestTooManyGPUs"},
	{"`perigee disagg` and `sweep`: configuration: script", "tools/disagg/launch.TestBombs tools/disagg.TestDryRunOfManyCases"},
	{"`perigee disagg` and `sweep`: result folder", "tools/disagg.TestPipesInFolders tools/disagg/record.TestLongCSV tools/disagg/batch.TestLedgerCut tools/disagg/batch.TestLedgerIsBounded tools/disagg.TestVerdictsAreBounded tools/disagg.TestVerdictsTogether"},
	{"`perigee disagg` and `sweep`: configuration: levels", "tools/disagg/config.TestNamesAreBounded"},
	{"`perigee disagg` and `sweep`: configuration: values,", "tools/disagg/config.TestNamesAreBounded e2e.TestPeakOfConfigurations"},
	{"`perigee disagg` and `sweep`: log", "tools/disagg/benchlog.TestLevelsAreBounded tools/disagg/accuracy.TestScoresAreBounded tools/disagg/accuracy.TestLongNames tools/disagg.TestConcurrenciesAreBounded tools/disagg.TestReasonsAreBounded tools/disagg/config.TestNamesAreBounded"},
	{"`perigee disagg` and `sweep`: configuration: `extractor_pattern`", "tools/disagg/pattern.TestLongPrograms tools/disagg/config.TestSweepsShareWork"},
	{"What `perigee disagg list`", "tools/disagg.TestReadingIsBounded"},
	{"`perigee disagg` and `sweep`: folder", "tools/sweep/load.TestFarTooManyFiles tools/sweep/load.TestFarTooDeep"},
	{"`perigee disagg` and `sweep`: report", "tools/sweep/load.TestBadReports tools/sweep/load.TestManyEngines"},
	{"other inputs of a run: error: its text", "internal/cli.TestLongErrorsAreShortened"},
	{"other inputs of a run: what a failed run of", "tools/rerun.TestLongErrorsOfRuns internal/cli.TestEnds"},
	{"other inputs of a run: configuration of `perigee simulate`", "tools/simulate.TestMemoryIsChecked tools/simulate.TestMemoryIsCheckedWhileReading tools/simulate.TestEstimate tools/simulate.TestShardsTakeNoMemory"},
	{"result: ranks of a result that is repeated", "tools/run.TestRepeatOfManyRanks"},
	{"other inputs of a run: sizes in bytes", "internal/size.TestParseRefuses"},
	{"other inputs of a run: `--timeout` |", "tools/run.TestTimeoutIsSane"},
	{"Before Go's runtime starts", "internal/early.TestDescriptors internal/early.TestMemoryLimit internal/early.TestProcsAreBounded spmd/launch.TestLimitOnThreads"},
	{"Where Go's runtime gets no memory", "internal/early.TestLimits e2e.TestLimitsAtStart e2e.TestScenarioFillsItsLimit e2e.TestDumpOnRequest e2e.TestHardlyAnyDescriptors"},
	{"A crash in NIXL", "e2e.TestCrashOfNIXL"},
	{"A result in which", "internal/result.TestReadRefuses"},
	{"A result that perigee wrote", "internal/result.TestNoBombs internal/result.TestEqualSamples internal/result.TestBombs lua.TestSourceBombs e2e.TestPeakOfBombs"},

	{"Names, notes, values and texts", "internal/plaintext.TestEscape internal/plaintext.TestCell internal/plaintext.TestWriter internal/plaintext.TestJSONWriter internal/page.TestPagesArePlain internal/cli.TestErrorsArePlain internal/table.TestJSONIsPlain tools/compare.TestHostileResults tools/report.TestTextOfOddResults e2e.TestRawTextOnTerminal tools/inspect.TestHostileResult tools/sweep.TestHostileReports tools/disagg.TestHostileTexts tools/disagg.TestHostileRunLog tools/disagg.TestHostileVerdict lua.TestPrintIsPlain tools/kvbench.TestHostileNames tools/run.TestHelpIsPlain internal/cli.TestFormatFor e2e.TestScripts/compare"},

	{"Trusted are the processes", "words"},
	{"what an attacker in the network does: connects to a rank without", "spmd/wire.TestStrangersDisturbNobody spmd/wire.TestSiege spmd/wire.TestMoreHalfOpenConnectionsThanTheListenerHolds spmd/wire.TestHandshake spmd/wire.TestProvenConnectionsStay spmd/wire.TestUnansweredHandshakes"},
	{"what an attacker in the network does: records a handshake", "spmd/wire.TestRecordedHandshakesAreWorthless"},
	{"what an attacker in the network does: poses as rank 0", "spmd/wire.TestHandshake spmd/boot.TestAlteredHandshake spmd.TestWrongSecretIsRefusedOnBothSides"},
	{"what an attacker in the network does: takes the port of rank 0", "spmd/boot.TestOccupiedPorts spmd/boot.TestStrangerBetweenThePorts"},
	{"what an attacker in the network does: writes addresses into the store", "spmd/boot.TestForeignAgentStore spmd/boot.TestPlacesIn spmd/boot.FuzzAgentStore"},
	{"what an attacker in the network does: answers, under plain Slurm", "spmd/boot.TestMungeCarriesTheSecret"},
	{"what an attacker in the network does: leads a connection", "spmd/boot.TestLinksOfOtherPlaces spmd/wire.TestHandshake"},
	{"what an attacker in the network does: alters, repeats", "spmd/wire.TestForgedFramesAreFound spmd/wire.TestForgedRecordsAreFound spmd/boot/watch.TestForgedWordsOfTheCoordinator spmd/boot/watch.TestForgedFirstWords"},
	{"what an attacker in the network does: alters a handshake", "spmd/boot.TestAlteredHandshake spmd.TestWrongSecretIsRefusedOnBothSides"},
	{"what an attacker in the network does: closes a connection between two hosts", "spmd/boot.TestClosedBeforeTheHello spmd/boot/watch.TestWhatEndsAConnection e2e/hosts.TestKill e2e/hosts.TestKillRankZero"},
	{"what an attacker in the network does: moves the bytes", "spmd/wire.TestKeysDiffer spmd/wire.TestForgedFramesAreFound"},
	{"what an attacker in the network does: holds back everything", "e2e/hosts.TestCutBetweenHosts e2e/hosts.TestCutHost"},
	{"what an attacker in the network does: reads along", "words"},
	{"A secret is for one job", "spmd/boot.TestLinksOfOtherPlaces"},
	{"All this holds for the links", "spmd/wire.TestConnCarriesAStream spmd/wire.TestForgedRecordsAreFound spmd/wire.TestKeysDiffer"},
	{"**Not protected**", "words"},
	{"On one host UCX has no such port", "nixl/capi.TestListenersOfOneHost e2e.TestListenersInsideAHost"},
	{"With shared memory UCX opens one datagram socket", "words"},
	{"torchrun carries no secret", "e2e.TestTorchrunSecret spmd/boot.TestSecretsOfTorchrun"},
}

// items takes a text in Markdown apart: paragraphs, bullets, and the rows of tables, each behind the first cell of its
// table's header.
func items(text string) (list []string) {
	lines := strings.Split(text, "\n")
	open := false // the next line continues the last item
	header := ""
	for i, line := range lines {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			open = false
		case strings.HasPrefix(line, "|---"):
		case strings.HasPrefix(line, "|"):
			cells := strings.TrimPrefix(line, "| ")
			if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---") {
				header, _, _ = strings.Cut(cells, " |")
				continue
			}
			list, open = append(list, header+": "+cells), false
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
