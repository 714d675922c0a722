/**
 * @module `bun run build`: one executable, `dist/tassis`, with the Bun runtime, all Workers, migrations and assets inside. Nothing else has to be
 * installed where it runs.
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
    // Where git or its folder is not there, as in a container.
    commit: { type: 'string' },
  },
})

const outfile = resolve(args.outfile)
mkdirSync(dirname(outfile), { recursive: true })
// Beside the result, so that it takes its place in one step; the source maps that Bun leaves there are in the executable too.
const folder = mkdtempSync(join(dirname(outfile), '.build-'))
try {
  const built = join(folder, 'tassis')
  const result = await Bun.build({
    entrypoints: [join(source, 'main.ts'), ...Object.values(workerEntries).map((entry) => join(source, entry))],
    // Workers are found by their paths below it: platform/workers.ts.
    root: source,
    target: 'bun',
    format: 'esm',
    bytecode: true,
    minify: { syntax: true },
    sourcemap: 'linked',
    define: { BUILD_COMMIT: JSON.stringify(args.commit || readSourceCommit(project)) },
    // Settings come from where platform/config.ts says, never from a file in the folder that the service happens to be started in.
    compile: { outfile: built, autoloadDotenv: false, autoloadBunfig: false },
  })
  for (const log of result.logs) console.error(log)
  renameSync(built, outfile)
  console.log(`${outfile}: ${Math.round(statSync(outfile).size / 1024 / 1024)} MiB`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
