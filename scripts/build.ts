/**
 * @module `bun run build`: builds one executable, `dist/tassis`, with the Bun runtime, all Workers, migrations and
 * assets. It needs no other installed software. The same commit, Bun and packages give the same bytes in any folder.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { BunPlugin } from 'bun'
import { PRELOAD_ENTRY, workerEntries } from '#platform/process/workers.ts'
import { compress } from '../src/app/dashboard/assets.ts'
import { bundleDashboard } from '../src/app/dashboard/bundle.ts'
import { type EmbeddedBundle, ENCODINGS } from '../src/app/dashboard/embedded.ts'
import { readSourceState, toDate } from '../src/app/version.ts'

const project = resolve(import.meta.dir, '..')
const source = join(project, 'src')
const { values: args } = parseArgs({
  options: {
    outfile: { type: 'string', default: join(project, 'dist', 'tassis') },
    // For builds without git or its folder, such as in a container; SOURCE_DATE_EPOCH is then the date.
    commit: { type: 'string' },
    // For another machine: `linux-arm64`, and its Bun; see scripts/release.
    target: { type: 'string' },
    runtime: { type: 'string' },
  },
})

/** Replaces `app/dashboard/embedded.ts` by a module with the bundle of the dashboard, compressed into `folder`. */
async function embedDashboard(folder: string): Promise<BunPlugin> {
  const { script, style, files } = await bundleDashboard(join(source, 'dashboard'))
  const imports: string[] = []
  const embedded: EmbeddedBundle = {
    script,
    style,
    // Bun returns them in an order that differs from build to build.
    files: files
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ name, content }) => {
        const embed = (encoding: (typeof ENCODINGS)[number]): [string, string] => {
          const file = `${name}.${encoding}`
          writeFileSync(join(folder, file), compress(content, encoding))
          const variable = `file${imports.length}`
          imports.push(
            `import ${variable} from ${JSON.stringify(`../../../dist/.dashboard/${file}`)} with { type: 'file' }`,
          )
          return [encoding, variable]
        }
        return { name, paths: Object.fromEntries(ENCODINGS.map(embed)) as EmbeddedBundle['files'][number]['paths'] }
      }),
  }
  // A path is the value of an imported variable, not a string.
  const bundle = JSON.stringify(embedded).replaceAll(/"(file\d+)"/g, '$1')
  const encodings = `export const ENCODINGS = ${JSON.stringify(ENCODINGS)}`
  const contents = [...imports, encodings, `export const embeddedBundle = ${bundle}`].join('\n')
  return {
    name: 'dashboard',
    setup: (build) => {
      build.onLoad({ filter: /\/app\/dashboard\/embedded\.ts$/ }, () => ({ contents, loader: 'ts' }))
    },
  }
}

const outfile = resolve(args.outfile)
mkdirSync(dirname(outfile), { recursive: true })
const state = readSourceState(project)
const epoch = process.env['SOURCE_DATE_EPOCH']
// In the target folder, so that a rename replaces the result atomically. Bun's source maps are also in the executable.
const folder = mkdtempSync(join(dirname(outfile), '.build-'))
// Always the same folder of the project, because its path is in the executable; builds overwrite it with the same files.
const dashboard = join(project, 'dist', '.dashboard')
mkdirSync(dashboard, { recursive: true })
try {
  const built = join(folder, 'tassis')
  const result = await Bun.build({
    entrypoints: ['main.ts', PRELOAD_ENTRY, ...Object.values(workerEntries)].map((entry) => join(source, entry)),
    // Workers are found by their paths below this root: platform/process/workers.ts.
    root: source,
    plugins: [await embedDashboard(dashboard)],
    target: 'bun',
    format: 'esm',
    bytecode: true,
    // What the main program and Workers share is contained once.
    splitting: true,
    // Names stay, for the log and because Elysia reads the parameters of handlers.
    minify: { syntax: true, whitespace: true },
    sourcemap: 'linked',
    define: {
      // CommonJS packages; otherwise, the folder of this build.
      __dirname: '"/"',
      BUILD_COMMIT: JSON.stringify(args.commit || state.commit),
      BUILD_DATE: JSON.stringify(epoch ? toDate(Number(epoch)) : state.date),
    },
    compile: {
      outfile: built,
      // platform/settings/config.ts decides where settings come from, never a file in the working directory.
      autoloadDotenv: false,
      autoloadBunfig: false,
      ...(args.target && { target: `bun-${args.target}` as Bun.Build.CompileTarget }),
      ...(args.runtime && { executablePath: resolve(args.runtime) }),
    },
  })
  for (const log of result.logs) console.error(log)
  renameSync(built, outfile)
  console.log(`${outfile}: ${Math.round(statSync(outfile).size / 1024 / 1024)} MiB`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
