/**
 * @module `bun run build`: builds one executable, `dist/tassis`, with the Bun runtime, all Workers, migrations and
 * assets. It needs no other installed software.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { readSourceCommit } from '../src/app/version.ts'
import { workerEntries } from '../src/platform/workers.ts'

const project = resolve(import.meta.dir, '..')
const source = join(project, 'src')
const { values: args } = parseArgs({
  options: {
    outfile: { type: 'string', default: join(project, 'dist', 'tassis') },
    // For builds without git or its folder, such as in a container.
    commit: { type: 'string' },
  },
})

const outfile = resolve(args.outfile)
mkdirSync(dirname(outfile), { recursive: true })
// In the target folder, so that a rename replaces the result atomically. Bun's source maps are also in the executable.
const folder = mkdtempSync(join(dirname(outfile), '.build-'))
try {
  const built = join(folder, 'tassis')
  const result = await Bun.build({
    entrypoints: [join(source, 'main.ts'), ...Object.values(workerEntries).map((entry) => join(source, entry))],
    // Workers are found by their paths below this root: platform/workers.ts.
    root: source,
    target: 'bun',
    format: 'esm',
    bytecode: true,
    minify: { syntax: true },
    sourcemap: 'linked',
    define: { BUILD_COMMIT: JSON.stringify(args.commit || readSourceCommit(project)) },
    // platform/config.ts decides where settings come from, never a file in the working directory.
    compile: { outfile: built, autoloadDotenv: false, autoloadBunfig: false },
  })
  for (const log of result.logs) console.error(log)
  renameSync(built, outfile)
  console.log(`${outfile}: ${Math.round(statSync(outfile).size / 1024 / 1024)} MiB`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
