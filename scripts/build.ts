/**
 * @module `bun run build`: builds one executable, `dist/tassis`, with the Bun runtime, all Workers, migrations and
 * assets. It needs no other installed software. The same commit, Bun and packages give the same bytes in any folder.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { BunPlugin } from 'bun'
import { type BuiltFile, compress } from '#platform/http/built-files.ts'
import { createTag } from '#platform/http/negotiation.ts'
import { PRELOAD_ENTRY, workerEntries } from '#platform/process/workers.ts'
import { bundleDashboard } from '../src/app/dashboard/bundle.ts'
import { readSourceState, toDate } from '../src/app/version.ts'
import { makeApiDocs } from './api-docs.ts'

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

/** Replaces `app/built-files.ts` by a module with these files, compressed into `folder`. */
function embedFiles(folder: string, filesOf: Readonly<Record<string, readonly BuiltFile[]>>): BunPlugin {
  const imports = ["import { openEmbedded } from '#platform/http/built-files.ts'"]
  const loaders = Object.entries(filesOf).map(([loader, files]) => {
    // Bun returns those of the dashboard in an order that differs from build to build.
    const sorted = files.toSorted((a, b) => (a.name < b.name ? -1 : 1))
    const embedded = sorted.map(({ name, content }) => {
      const paths = (['br', 'gzip'] as const).map((encoding) => {
        const file = `${name.replaceAll('/', '-')}.${encoding}`
        writeFileSync(join(folder, file), compress(content, encoding))
        const variable = `file${imports.length}`
        // Relative, because the path is in the executable.
        const path = JSON.stringify(`../../dist/.embedded/${file}`)
        imports.push(`import ${variable} from ${path} with { type: 'file' }`)
        return variable
      })
      return `[${JSON.stringify(name)}, ${JSON.stringify(createTag(content))}, ${paths.join(', ')}]`
    })
    return `export const ${loader} = async () => openEmbedded([${embedded.join(',\n')}])`
  })
  const contents = [...imports, ...loaders].join('\n')
  return {
    name: 'built files',
    setup: (build) => {
      build.onLoad({ filter: /\/app\/built-files\.ts$/ }, () => ({ contents, loader: 'ts' }))
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
const embedded = join(project, 'dist', '.embedded')
mkdirSync(embedded, { recursive: true })
try {
  const built = join(folder, 'tassis')
  const result = await Bun.build({
    entrypoints: ['main.ts', PRELOAD_ENTRY, ...Object.values(workerEntries)].map((entry) => join(source, entry)),
    // Workers are found by their paths below this root: platform/process/workers.ts.
    root: source,
    plugins: [
      embedFiles(embedded, { loadDashboardFiles: await bundleDashboard(), loadDocsFiles: await makeApiDocs() }),
    ],
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
