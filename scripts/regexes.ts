/**
 * @module `bun scripts/regexes.ts`: analyses every regular expression of the sources that processes outside text, and
 * prints those whose time grows faster than their input. Writes those whose analysis was slow and found nothing to
 * test/regexes/linear.json, so that the tests need not repeat it. Takes minutes.
 */
import { findOutsideRegexes } from '../test/regexes/all.ts'
import { analyse } from '../test/regexes/analyse.ts'
import { formatRegex, LINEAR_FILE } from '../test/regexes/linear.ts'

const LONG_MS = 100

const slow: string[] = []
for (const regex of (await findOutsideRegexes()).regexes) {
  const start = performance.now()
  const verdict = await analyse(regex)
  if (verdict.kind === 'grows') {
    console.error(`${regex.place} ${formatRegex(regex)} grows with ${verdict.attack}`)
    process.exitCode = 1
  } else if (performance.now() - start > LONG_MS) slow.push(formatRegex(regex))
}
await Bun.write(LINEAR_FILE, `${JSON.stringify(slow.toSorted(), null, 2)}\n`)
// Without this call the child process that runs the analysis would keep this process alive.
process.exit()
