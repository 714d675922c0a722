/**
 * @module The rules of the source tree, as tests. They are also its documentation: what may import what, the rank of
 * the features, who writes a table, which modules may use time, randomness and the environment.
 */
import { expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, normalize, relative, sep } from 'node:path'

/**
 * The areas in rank order, and the features of each in rank order. A feature imports only features before it in this
 * order. A dependency in the other direction uses an event, a signal of `App`, the name of a job, or an argument that
 * `app` passes in.
 */
const AREAS = {
  core: ['app', 'audit-logs', 'events', 'fence', 'content-gc', 'accounts', 'operations', 'notices'],
  setup: [
    'streams',
    'api-keys',
    'domains',
    'dns-publish',
    'certificates',
    'templates',
    'wording',
    'contact-store',
    'suppression-store',
    'health',
  ],
  sending: [
    'queue',
    'accept',
    'emails',
    'system-mail',
    'tracking',
    'unsubscribe',
    'capture',
    'dead-letters',
    'broadcasts',
    'newsletters',
    'transport-security',
    'simulator',
    'delivery',
  ],
  people: ['team', 'owner-notices', 'sub-accounts', 'billing'],
  receiving: [
    'received',
    'bounces',
    'complaints',
    'domain-reports',
    'postmaster',
    'agent-mailboxes',
    'route-rules',
    'inbound',
  ],
  audience: ['suppressions', 'sequences', 'contact-lists', 'signup-forms'],
  reporting: ['analytics', 'reputation', 'validate', 'insights', 'logs', 'abuse', 'sender-rules', 'email-check'],
  webhooks: ['event-feed', 'webhooks', 'inbound-routes'],
  lifecycle: ['retention', 'privacy', 'people'],
  'drop-in': ['submission', 'dialects', 'resend', 'postmark', 'mailgun', 'postal', 'mcp', 'supabase'],
} as const

/** Every feature as `area/feature`, in rank order. */
const RANK: readonly string[] = Object.entries(AREAS).flatMap(([area, features]) =>
  features.map((feature) => `${area}/${feature}`),
)

/** At most so many lines of TypeScript. A limit is raised only in a commit that says why; lower it when code goes. */
const MAX_LINES: Readonly<Record<string, number>> = {
  core: 4980,
  setup: 11340,
  sending: 25290,
  people: 7050,
  receiving: 12670,
  audience: 6950,
  reporting: 5730,
  webhooks: 5990,
  lifecycle: 4050,
  'drop-in': 6960,
  app: 13890,
  bench: 830,
  dashboard: 22800,
  platform: 17720,
  protocols: 9670,
  client: 1050,
  src: 156650,
  test: 143800,
}

/** Programs, not modules: a process or a Worker starts with such a file, so importing it may start something. */
const ENTRIES = /^src\/(main|app\/cli\/.*|.*worker)\.ts$/

const ROOT = join(import.meta.dir, '..')

interface Module {
  /** Path from the root, with slashes: `src/features/sending/accept/accept.ts`. */
  readonly path: string
  readonly source: string
  /** Paths of our modules that it imports for their values. */
  readonly imports: readonly string[]
  /** The same, and our modules from which it imports only types. */
  readonly named: readonly string[]
  /** Packages and `node:` modules that it imports. */
  readonly packages: readonly string[]
}

const ALIAS = /^#(app|bench|client|platform|protocols|features|dashboard)\//

const TRANSPILERS = { ts: new Bun.Transpiler({ loader: 'ts' }), tsx: new Bun.Transpiler({ loader: 'tsx' }) }

/** Finds imports in the text, because the transpiler drops those of types. */
const FROM = /^(?:import|export)\b[^'"`;]*?\bfrom\s+'([^']+)'/gm

/** Returns the path of our module that a specifier names; undefined for a package. */
function resolve(path: string, specifier: string): string | undefined {
  if (ALIAS.test(specifier)) return `src/${specifier.slice(1)}`
  if (!specifier.startsWith('.')) return undefined
  return normalize(join(dirname(path), specifier))
    .split(sep)
    .join('/')
}

function moduleOf(path: string, source: string): Module {
  const imports: string[] = []
  const packages: string[] = []
  for (const { path: specifier } of TRANSPILERS[path.endsWith('.tsx') ? 'tsx' : 'ts'].scanImports(source)) {
    const ours = resolve(path, specifier)
    if (ours === undefined) packages.push(specifier)
    else imports.push(ours)
  }
  const inText = [...source.matchAll(FROM)].flatMap(([, specifier = '']) => resolve(path, specifier) ?? [])
  return { path, source, imports, named: [...new Set([...imports, ...inText])], packages }
}

const MODULES: readonly Module[] = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.tsx?$/.test(file) && !file.endsWith('.d.ts'))
  .map((file) => join('src', file))
  .map((file) =>
    moduleOf(relative(ROOT, join(ROOT, file)).split(sep).join('/'), readFileSync(join(ROOT, file), 'utf8')),
  )
  .sort((a, b) => a.path.localeCompare(b.path))

type Ring = 'main' | 'bench' | 'app' | 'features' | 'platform' | 'protocols' | 'client' | 'dashboard' | 'other'

function ringOf(path: string): Ring {
  if (path === 'src/main.ts') return 'main'
  const [, folder] = path.split('/')
  return folder === 'app' ||
    folder === 'bench' ||
    folder === 'features' ||
    folder === 'platform' ||
    folder === 'protocols' ||
    folder === 'client' ||
    folder === 'dashboard'
    ? folder
    : 'other'
}

const MAY_IMPORT: Readonly<Record<Ring, readonly Ring[]>> = {
  main: ['bench', 'app', 'features', 'platform', 'protocols', 'other'],
  bench: ['bench', 'app', 'features', 'platform', 'protocols', 'other'],
  app: ['app', 'features', 'platform', 'protocols', 'client', 'dashboard', 'other'],
  features: ['features', 'platform', 'protocols', 'client', 'other'],
  platform: ['platform', 'other'],
  protocols: ['protocols', 'other'],
  // Published alone, so it imports nothing.
  client: ['client'],
  dashboard: ['client', 'dashboard', 'other'],
  // Data files: SQL, JSON.
  other: [],
}

/** The dashboard and the client know the service only by its API: they may not even import types of other rings. */
const ringBreaks = (modules: readonly Module[]): string[] =>
  modules.flatMap(({ path, imports, named }) => {
    const ring = ringOf(path)
    const counted = ring === 'dashboard' || ring === 'client' ? named : imports
    return counted.filter((to) => !MAY_IMPORT[ring].includes(ringOf(to))).map((to) => `${path} imports ${to}`)
  })

/** Returns the feature of a file, as `area/feature`. */
const featureOf = (path: string): string | undefined => /^src\/features\/([^/]+\/[^/]+)\//.exec(path)?.[1]

const isTables = (path: string): boolean => path.endsWith('/tables.ts')

const areaOf = (path: string): string | undefined => /^src\/features\/([^/]+)\//.exec(path)?.[1]

/** Maximum number of files of a feature that other areas may import. */
const MAX_ENTRY_POINTS = 8
/** Maximum number of files of a feature that other features may import. */
const MAX_DOORS = 13

interface Doors {
  /** What other areas import; other features of the area may too. */
  readonly entryPoints: readonly string[]
  /** What only other features of the area import. */
  readonly inside: readonly string[]
}

/** Reads the files that a text lists behind a label: `Label: \`a.ts\`, \`b/c.ts\`.` */
function filesBehind(label: string, text: string): readonly string[] {
  const [, files = ''] = new RegExp(`\\b${label}:([^.]*(?:\\.ts[^.]*)*)\\.`).exec(text) ?? []
  return [...files.matchAll(/`([\w/-]+\.ts)`/g)].flatMap(([, file]) => file ?? [])
}

/**
 * Reads the doors that the README of an area lists for each feature: `- \`name\`: text. Entry points: \`a.ts\`. Inside
 * the area: \`b.ts\`, \`c.ts\`.`
 */
function listedDoors(readme: string): Map<string, Doors> {
  const items = readme.split(/^- /m).slice(1)
  return new Map(
    items.flatMap((item) => {
      const [, name = ''] = /^`([\w-]+)`: /.exec(item) ?? []
      const text = (item.split('\n\n')[0] ?? '').replace(/\s+/g, ' ')
      const doors = { entryPoints: filesBehind('Entry points', text), inside: filesBehind('Inside the area', text) }
      return name === '' ? [] : [[name, doors]]
    }),
  )
}

/**
 * Lists imports from other features that are not of a door, listed doors that nothing enters, and features with too many
 * doors. Any `tables.ts` may be imported, for foreign keys.
 * @param readmes by area
 */
function entryBreaks(modules: readonly Module[], readmes: ReadonlyMap<string, string>): string[] {
  const used = { entryPoints: new Set<string>(), inside: new Set<string>() }
  const breaks: string[] = []
  const listed = new Map([...readmes].map(([area, readme]) => [area, listedDoors(readme)]))
  for (const { path, named } of modules) {
    if (ringOf(path) !== 'features') continue
    for (const to of named) {
      const feature = featureOf(to)
      if (feature === undefined || feature === featureOf(path) || isTables(to)) continue
      const isInside = areaOf(to) === areaOf(path)
      const [area = '', name = ''] = feature.split('/')
      const doors = listed.get(area)?.get(name)
      const file = to.slice(`src/features/${feature}/`.length)
      const isEntryPoint = doors?.entryPoints.includes(file) ?? false
      used[isInside ? 'inside' : 'entryPoints'].add(`${feature}/${file}`)
      if (!isEntryPoint && !(isInside && doors?.inside.includes(file)))
        breaks.push(`${path} imports ${to}, which is no ${isInside ? 'door' : 'entry point'} of ${feature}`)
    }
  }
  for (const [area, features] of listed) {
    for (const [name, { entryPoints, inside }] of features) {
      const feature = `${area}/${name}`
      if (entryPoints.length > MAX_ENTRY_POINTS) breaks.push(`${feature} has ${entryPoints.length} entry points`)
      if (entryPoints.length + inside.length > MAX_DOORS)
        breaks.push(`${feature} has ${entryPoints.length + inside.length} doors`)
      for (const file of entryPoints)
        if (!used.entryPoints.has(`${feature}/${file}`)) breaks.push(`no other area imports ${feature}/${file}`)
      for (const file of inside)
        if (!used.inside.has(`${feature}/${file}`))
          breaks.push(`no other feature of its area imports ${feature}/${file}`)
    }
  }
  return breaks
}

/** Returns the room of a file, a folder inside a feature, as `area/feature/room`. */
const roomOf = (path: string): string | undefined => /^src\/features\/([^/]+\/[^/]+\/[^/]+)\//.exec(path)?.[1]

/**
 * Lists imports of a room that are not of a door, listed doors that nothing enters, and rooms that import each other. A
 * Worker may be a door without being imported.
 * @param readmes by room; each has a line `Door: \`a.ts\`, \`b.ts\`.`
 */
function roomBreaks(modules: readonly Module[], readmes: ReadonlyMap<string, string>): string[] {
  const entered = new Set<string>()
  const arrows = new Set<string>()
  const breaks: string[] = []
  for (const { path, named } of modules) {
    for (const to of named) {
      const [from, room] = [roomOf(path), roomOf(to)]
      // Data, such as JSON, is no module.
      if (room === undefined || room === from || !/\.tsx?$/.test(to)) continue
      entered.add(to)
      if (from !== undefined && featureOf(from) === featureOf(room)) arrows.add(`${from} ${room}`)
      if (!filesBehind('Door', readmes.get(room) ?? '').includes(to.slice(`src/features/${room}/`.length)))
        breaks.push(`${path} imports ${to}, which is no door of ${room}`)
    }
  }
  for (const arrow of arrows) {
    const [from = '', to = ''] = arrow.split(' ')
    if (from < to && arrows.has(`${to} ${from}`)) breaks.push(`${from} and ${to} import each other`)
  }
  for (const [room, readme] of readmes)
    for (const file of filesBehind('Door', readme)) {
      const path = `src/features/${room}/${file}`
      if (!entered.has(path) && !ENTRIES.test(path)) breaks.push(`nothing enters ${room}/${file}`)
    }
  return breaks
}

const rankBreaks = (modules: readonly Module[], rank: readonly string[]): string[] =>
  modules.flatMap(({ path, named }) => {
    const from = featureOf(path)
    return named
      .filter((to) => ringOf(path) === 'features' && ringOf(to) === 'features')
      .filter((to) => {
        const feature = featureOf(to)
        if (feature === undefined || feature === from) return false
        return from === undefined || rank.indexOf(feature) > rank.indexOf(from) || !rank.includes(feature)
      })
      .map((to) => `${path} imports ${to}`)
  })

/** Imports of types count too: modules that import each other can only be understood together. */
function cyclesOf(modules: readonly Module[]): string[] {
  const byPath = new Map(modules.map((module) => [module.path, module]))
  const finished = new Set<string>()
  const cycles: string[] = []
  const visit = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) cycles.push([...trail.slice(trail.indexOf(path)), path].join(' -> '))
    if (trail.includes(path) || finished.has(path)) return
    for (const to of byPath.get(path)?.named ?? []) visit(to, [...trail, path])
    finished.add(path)
  }
  for (const { path } of modules) visit(path, [])
  return cycles
}

const CREATES = /sqliteTable\(\s*'(\w+)'|CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?(\w+)/g
const WRITES = /\b(?:INSERT(?: OR \w+)? INTO|REPLACE INTO|DELETE FROM)\s+(\w+)|\bUPDATE(?: OR \w+)?\s+(\w+)\s+SET\b/g

/** Returns the owner of the tables that a file writes: its feature; outside of features its folder. */
const ownerOf = (path: string): string => featureOf(path) ?? dirname(path)

const matchesOf = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].flatMap((match) => match[1] ?? match[2] ?? [])

/**
 * May delete rows of every table: it removes the rows of deleted accounts. Another test compares its tables with the
 * schema.
 */
const REMOVER = 'src/features/lifecycle/privacy/account-rows.ts'
const UPDATES = /\b(?:INSERT|REPLACE|UPDATE)\b/

function writerBreaks(modules: readonly Module[]): string[] {
  const owners = new Map<string, Set<string>>()
  for (const { path, source } of modules) {
    for (const table of matchesOf(source, CREATES))
      owners.set(table, (owners.get(table) ?? new Set()).add(ownerOf(path)))
  }
  return modules.flatMap(({ path, source }) =>
    matchesOf(source, WRITES)
      .filter((table) => !owners.get(table)?.has(ownerOf(path)))
      .filter(() => path !== REMOVER || UPDATES.test(source))
      .map((table) => `${path} writes ${table}`),
  )
}

/** Matches `prepareCount` too, which puts its text behind FROM. */
const READS = /(?:\b(?:FROM|JOIN)\s+(?:main\.)?|\bprepareCount\(\s*\w+,\s*')(\w+)((?:\s*,\s*\w+)*)/g

/** Returns the tables that the SQL of a source reads, including those after commas. */
const tablesReadBy = (source: string): Set<string> =>
  new Set(
    [...withoutComments(source).matchAll(READS)].flatMap(([, first = '', rest = '']) => [
      first,
      ...rest.split(',').map((name) => name.trim()),
    ]),
  )

/** Finds reads of tables of later features: such a feature depends on the later one without importing it. */
function readBreaks(modules: readonly Module[], rank: readonly string[]): string[] {
  const owners = new Map<string, string>()
  for (const { path, source } of modules) {
    const owner = featureOf(path)
    if (owner !== undefined) for (const table of matchesOf(source, CREATES)) owners.set(table, owner)
  }
  return modules.flatMap(({ path, source }) => {
    const from = featureOf(path)
    if (from === undefined) return []
    return [...tablesReadBy(source)]
      .filter((table) => rank.indexOf(owners.get(table) ?? from) > rank.indexOf(from))
      .map((table) => `${path} reads ${table}`)
  })
}

/** What only clock.ts, ids.ts and config.ts may use, except in the dashboard and the client, which run elsewhere. */
const UNTOUCHABLE: readonly { readonly pattern: RegExp; readonly only: string }[] = [
  { pattern: /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(/, only: 'src/platform/time/clock.ts' },
  {
    pattern: /(?<![.\w])(setTimeout|setInterval)\(|\bBun\.sleep(Sync)?\(|\btimers\/promises\b/,
    only: 'src/platform/time/clock.ts',
  },
  {
    pattern:
      /\bMath\.random\(|\brandomUUID(v\d)?\(|\bgetRandomValues\(|\bimport\b[^\n]*\brandom(Bytes|Int|FillSync)\b[^\n]*'node:crypto'/,
    only: 'src/platform/ids.ts',
  },
  // In quotes it is the name that the bundler replaces in the dashboard's libraries.
  { pattern: /(?<!')\b(process|Bun|import\.meta)\.env\b/, only: 'src/platform/settings/config.ts' },
]

const touchBreaks = (modules: readonly Module[]): string[] =>
  modules
    .filter(({ path }) => !['client', 'dashboard'].includes(ringOf(path)))
    .flatMap(({ path, source }) =>
      UNTOUCHABLE.filter(({ pattern, only }) => path !== only && pattern.test(withoutComments(source))).map(
        ({ only }) => `${path} uses what only ${only} may use`,
      ),
    )

const withoutComments = (source: string): string => source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')

test('rings: main imports app, app imports features, features import platform and protocols; no import goes outwards', () => {
  expect(ringBreaks(MODULES)).toEqual([])
})

test('rank: a feature imports only features that come before it in the list', () => {
  expect(rankBreaks(MODULES, RANK)).toEqual([])
})

test('other features import a feature only through the few files that the README of its area lists', () => {
  const readmes = new Map(
    Object.keys(AREAS).map((area) => [area, readFileSync(join(ROOT, 'src/features', area, 'README.md'), 'utf8')]),
  )
  expect(entryBreaks(MODULES, readmes)).toEqual([])
})

test('each room has a README of one screen, whose doors are the only way in; no two rooms import each other', () => {
  const rooms = [...new Set(MODULES.flatMap(({ path }) => roomOf(path) ?? []))]
  const readmes = new Map(
    rooms.map((room) => [room, readFileSync(join(ROOT, 'src/features', room, 'README.md'), 'utf8')]),
  )
  for (const readme of readmes.values()) expect(readme.split('\n').length).toBeLessThanOrEqual(61)
  expect(roomBreaks(MODULES, readmes)).toEqual([])
})

/** At most so many files are read from the request to the event of one email. */
const MAX_FILES_OF_A_SEND = 45

test('the way of an email is listed file by file: each is imported by another, or is a Worker; they are few', () => {
  const readme = readFileSync(join(ROOT, 'src/features/sending/delivery/README.md'), 'utf8')
  const [, way = ''] = readme.split('## The way of an email, file by file')
  const files = way.split('\n## ')[0]?.split('\n- ').slice(1) ?? []
  const paths = files.flatMap((item) => {
    const [, folder = ''] = /^`([\w/-]+)`: /.exec(item) ?? []
    return [...item.matchAll(/`([\w-]+)\.ts`/g)].map(([, name]) => `src/features/sending/${folder}/${name}.ts`)
  })
  const byPath = new Map(MODULES.map((module) => [module.path, module]))
  expect(paths.filter((path) => !byPath.has(path))).toEqual([])
  const imported = new Set(paths.flatMap((path) => byPath.get(path)?.named ?? []))
  expect(paths.filter((path) => !imported.has(path) && !ENTRIES.test(path))).toEqual([
    'src/features/sending/emails/routes.ts',
    'src/features/sending/delivery/schedule/scheduler.ts',
  ])
  expect(paths.length).toBeGreaterThan(30)
  expect(paths.length).toBeLessThanOrEqual(MAX_FILES_OF_A_SEND)
})

test('the README of each area lists all of its features in rank order, on one screen', () => {
  for (const [area, features] of Object.entries(AREAS)) {
    const readme = readFileSync(join(ROOT, 'src/features', area, 'README.md'), 'utf8')
    expect([...listedDoors(readme).keys()].filter((name) => features.some((feature) => feature === name))).toEqual([
      ...features,
    ])
    expect(readme.split('\n').length).toBeLessThanOrEqual(61)
  }
})

test('no area has more lines than its limit, nor have src and test as a whole', () => {
  const lines = new Map<string, number>()
  const add = (name: string, source: string) => lines.set(name, (lines.get(name) ?? 0) + source.split('\n').length - 1)
  for (const { path, source } of MODULES) {
    add(areaOf(path) ?? (path === 'src/main.ts' ? 'app' : ringOf(path)), source)
    add('src', source)
  }
  for (const file of readdirSync(import.meta.dir, { recursive: true, encoding: 'utf8' }))
    if (/\.tsx?$/.test(file)) add('test', readFileSync(join(import.meta.dir, file), 'utf8'))
  expect([...lines.keys()].sort()).toEqual(Object.keys(MAX_LINES).sort())
  const tooLong = [...lines].filter(([name, count]) => count > (MAX_LINES[name] ?? 0))
  expect(
    tooLong.map(
      ([name, count]) =>
        `${name} has ${count} lines, at most ${MAX_LINES[name]} are allowed: take some away, or raise MAX_LINES in a commit that says why`,
    ),
  ).toEqual([])
})

test('the list contains exactly the existing features', () => {
  const features = new Set(MODULES.map(({ path }) => featureOf(path)).filter((feature) => feature !== undefined))
  expect([...features].sort()).toEqual([...RANK].sort())
})

test('no module imports itself through other modules, imports of types included', () => {
  expect(cyclesOf(MODULES)).toEqual([])
})

test('one writer per table: only the folder that declares a table writes it', () => {
  expect(writerBreaks(MODULES)).toEqual([])
})

test('rank: a feature reads only its own tables and those of features before it in the list', () => {
  expect(readBreaks(MODULES, RANK)).toEqual([])
})

test('only tables.ts and columns.ts use the query builder; the rules above see only tables written with SQL', () => {
  const users = MODULES.filter(({ packages }) => packages.some((name) => name.startsWith('drizzle-orm')))
  expect(
    users.map(({ path }) => path).filter((path) => !isTables(path) && path !== 'src/platform/db/columns.ts'),
  ).toEqual([])
})

test('only clock, ids and config use time, randomness and the environment', () => {
  expect(touchBreaks(MODULES)).toEqual([])
})

test('importing a module starts nothing: no timer, Worker, socket or process, and no file or output', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-import-'))
  const paths = MODULES.filter(({ path }) => !ENTRIES.test(path) && ringOf(path) !== 'dashboard').map(({ path }) =>
    join(ROOT, path),
  )
  // If an import keeps the process from ending, this test fails at its time limit.
  const program = `
    const started = []
    const watch = (holder, name) => {
      const real = holder[name]
      holder[name] = function (...args) {
        // Only direct calls from src count, because libraries have timers of their own.
        const caller = new Error().stack.split('\\n')[2] ?? ''
        if (caller.includes(${JSON.stringify(join(ROOT, 'src') + sep)})) started.push(name + caller)
        return Reflect.apply(real, this, args)
      }
    }
    for (const name of ['setTimeout', 'setInterval', 'setImmediate', 'fetch']) watch(globalThis, name)
    for (const name of ['serve', 'listen', 'connect', 'spawn', 'udpSocket']) watch(Bun, name)
    globalThis.Worker = class { constructor() { started.push('Worker') } }
    for (const path of ${JSON.stringify(paths)}) await import(path)
    console.log(JSON.stringify(started))
  `
  try {
    await using child = Bun.spawn([process.execPath, '-e', program], {
      cwd: folder,
      stdout: 'pipe',
      stderr: 'pipe',
      env: {},
    })
    const [stdout, stderr, exitCode] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ])
    expect({ stdout: stdout.trim(), stderr, exitCode, files: readdirSync(folder) }).toEqual({
      stdout: '[]',
      stderr: '',
      exitCode: 0,
      files: [],
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}, 300_000)

test('each rule finds the imports and texts that break it', () => {
  const broken = [
    moduleOf(
      'src/protocols/x/a.ts',
      `import { b } from '#platform/b.ts'\nb()\nimport type { T } from '#features/t.ts'`,
    ),
    moduleOf('src/dashboard/s.ts', `import type { T } from '#features/t.ts'`),
    moduleOf('src/platform/c.ts', `import { d } from '../features/area/low/d.ts'\nd(setTimeout(() => 1, 2))`),
    moduleOf('src/features/area/low/tables.ts', `export const lows = sqliteTable('lows', {})`),
    moduleOf(
      'src/features/area/low/d.ts',
      `import { e } from '../high/e.ts'\ne('INSERT OR IGNORE INTO lows VALUES (1)')`,
    ),
    moduleOf('src/features/area/high/tables.ts', `export const highs = sqliteTable('highs', {})`),
    moduleOf(
      'src/features/area/low/g.ts',
      '// SELECT 1 FROM highs\n/** FROM highs */\nrun(`SELECT 1 FROM lows,\n highs`)',
    ),
    moduleOf('src/features/area/low/h.ts', "run('SELECT 1 FROM lows LEFT JOIN highs')"),
    moduleOf('src/features/area/low/k.ts', "prepareCount(db, 'highs WHERE a = ?')"),
    moduleOf('src/features/area/high/i.ts', "run('SELECT 1 FROM lows JOIN highs')\nimport { type J } from './j.ts'"),
    moduleOf('src/features/area/high/j.ts', "import type {\n  I,\n} from './i.ts'"),
    moduleOf(
      'src/features/area/high/e.ts',
      "import { d } from '#features/area/low/d.ts'\nd('UPDATE lows SET a = 1 WHERE at < ?', Date.now(), `DELETE FROM\n nowhere`)",
    ),
    moduleOf(
      'src/features/area/high/f.ts',
      `// Date.now() is not ours\nconsole.log(clock.setTimeout(1), new Date(0), 'ON CONFLICT DO UPDATE SET a = 1')`,
    ),
  ]
  const crossing = [
    moduleOf('src/features/a/x/open.ts', ''),
    moduleOf('src/features/a/x/inner.ts', ''),
    moduleOf('src/features/a/x/near.ts', ''),
    moduleOf('src/features/a/x/tables.ts', ''),
    moduleOf('src/features/a/y/y.ts', `import '#features/a/x/near.ts'\nimport { inner } from '#features/a/x/inner.ts'`),
    moduleOf(
      'src/features/b/z/z.ts',
      `import '#features/a/x/open.ts'\nimport type { I } from '#features/a/x/inner.ts'\nimport { t } from '#features/a/x/tables.ts'\nt()`,
    ),
    moduleOf('src/features/b/w/w.ts', `import '#features/a/x/near.ts'`),
  ]
  const readme =
    '# A\n\n- `x`: one. Two.\n  Entry points: `open.ts`,\n  `unused.ts`. Inside the\n  area: `near.ts`, `far.ts`.\n- `y`: more.\n\n- `x.ts` is not one.\n'
  expect(entryBreaks(crossing, new Map([['a', readme]]))).toEqual([
    'src/features/a/y/y.ts imports src/features/a/x/inner.ts, which is no door of a/x',
    'src/features/b/z/z.ts imports src/features/a/x/inner.ts, which is no entry point of a/x',
    'src/features/b/w/w.ts imports src/features/a/x/near.ts, which is no entry point of a/x',
    'no other area imports a/x/unused.ts',
    'no other feature of its area imports a/x/far.ts',
  ])
  const rooms = [
    moduleOf('src/features/a/x/hall/door.ts', `import '../cellar/door.ts'`),
    moduleOf('src/features/a/x/hall/back.ts', `import './door.ts'`),
    moduleOf('src/features/a/x/cellar/door.ts', `import type { B } from '../hall/back.ts'`),
  ]
  const door = 'Door: `door.ts`, `bricked-up.ts`, `worker.ts`.'
  expect(
    roomBreaks(
      rooms,
      new Map([
        ['a/x/hall', 'Nothing.'],
        ['a/x/cellar', door],
      ]),
    ),
  ).toEqual([
    'src/features/a/x/cellar/door.ts imports src/features/a/x/hall/back.ts, which is no door of a/x/hall',
    'a/x/cellar and a/x/hall import each other',
    'nothing enters a/x/cellar/bricked-up.ts',
  ])
  const many = Array.from({ length: 9 }, (_, index) => `\`${index}.ts\``).join(', ')
  expect(entryBreaks([], new Map([['a', `- \`x\`: one. Entry points: ${many}.`]]))).toContain('a/x has 9 entry points')
  expect({
    rings: ringBreaks(broken),
    rank: rankBreaks(broken, ['area/low', 'area/high']),
    writers: writerBreaks(broken),
    cycles: cyclesOf(broken),
    reads: readBreaks(broken, ['area/low', 'area/high']),
    touches: touchBreaks(broken),
  }).toEqual({
    rings: [
      'src/protocols/x/a.ts imports src/platform/b.ts',
      'src/dashboard/s.ts imports src/features/t.ts',
      'src/platform/c.ts imports src/features/area/low/d.ts',
    ],
    rank: ['src/features/area/low/d.ts imports src/features/area/high/e.ts'],
    writers: ['src/features/area/high/e.ts writes lows', 'src/features/area/high/e.ts writes nowhere'],
    cycles: [
      'src/features/area/low/d.ts -> src/features/area/high/e.ts -> src/features/area/low/d.ts',
      'src/features/area/high/i.ts -> src/features/area/high/j.ts -> src/features/area/high/i.ts',
    ],
    reads: [
      'src/features/area/low/g.ts reads highs',
      'src/features/area/low/h.ts reads highs',
      'src/features/area/low/k.ts reads highs',
    ],
    touches: [
      'src/platform/c.ts uses what only src/platform/time/clock.ts may use',
      'src/features/area/high/e.ts uses what only src/platform/time/clock.ts may use',
    ],
  })
})

/**
 * Matches a stored code in SQL for columns whose codes are positions in a list of names (`codesOf`): `status = 3`,
 * `state <= 5`, `kind IN (0, 1)`. A status of three digits is an HTTP status.
 */
const STORED_CODE =
  /(?<![.\w])(?:\w+\.)?(?:status|state|kind|match_type|type) *(?:=|<>|!=|<=?|>=?|(?:NOT )?IN|IS(?: NOT)?) *\(?\d{1,2}\b/g

/** Skips tables.ts: an index there keeps the text with which it was created, including the number. */
const codeBreaks = (modules: readonly Module[]): string[] =>
  modules
    .filter(({ path }) => !isTables(path))
    .flatMap(({ path, source }) =>
      (withoutComments(source).match(STORED_CODE) ?? []).map((code) => `${path} contains the stored code "${code}"`),
    )

test('SQL gets stored codes from the list of their names, never as numbers', () => {
  expect(codeBreaks(MODULES)).toEqual([])
  const broken = [
    "db.prepare('SELECT id FROM recipients WHERE status = 3 AND kind IN (0, 1)')",
    'db.prepare(`UPDATE emails SET status = 0 WHERE emails.state <> 2 AND type NOT IN (12)`)',
    '// status = 1 is `scheduled`',
    'function page(status = 200) { return status === 1 || status >= 500 || set.status < 400 }',
  ].map((source, at) => moduleOf(`src/features/area/low/${at}.ts`, source))
  expect(codeBreaks(broken)).toEqual([
    'src/features/area/low/0.ts contains the stored code "status = 3"',
    'src/features/area/low/0.ts contains the stored code "kind IN (0"',
    'src/features/area/low/1.ts contains the stored code "status = 0"',
    'src/features/area/low/1.ts contains the stored code "emails.state <> 2"',
    'src/features/area/low/1.ts contains the stored code "type NOT IN (12"',
  ])
})

/**
 * Matches variables of a module, and its collections that can change. Constants are excluded: their type is read-only
 * or their name is in capitals.
 */
const MODULE_STATE =
  /^(?:export )?(?:let|var) (\w+)|^(?:export )?const ([a-z]\w*)(?:: (?:Weak)?(?:Map|Set)\b.*)? = (?:new (?:Weak)?(?:Map|Set)\b|\[\]|\{\})/gm

/** Modules that attach to an object what another module sets; `perOwner` creates state from its owner alone. */
const MAY_HAVE_STATE: readonly string[] = [
  'src/platform/http/request-context.ts',
  'src/features/setup/suppression-store/suppression-list-key.ts',
]

const stateBreaks = (modules: readonly Module[]): string[] =>
  modules
    .filter(({ path }) => ringOf(path) !== 'dashboard' && !MAY_HAVE_STATE.includes(path))
    .flatMap(({ path, source }) =>
      matchesOf(withoutComments(source), MODULE_STATE).map((name) => `${path} has the module state ${name}`),
    )

test('no module has state: state belongs to an object, such as the service (platform/per-owner.ts)', () => {
  expect(stateBreaks(MODULES)).toEqual([])
  const broken = [
    'let last = 0\nexport let settings: Settings | undefined',
    'const waiting = new Map<number, string>()\nconst ofApp = new WeakMap<App, Set<number>>()',
    'const all: Map<string, string> = new Map()\nexport const rows = []',
    "const NAMES = new Set(['a'])\nfunction count() {\n  let n = 0\n  const seen = new Map()\n}",
    'const filesOf = perOwner((_: App) => new Map<string, number>())',
  ].map((source, at) => moduleOf(`src/features/area/low/${at}.ts`, source))
  expect(stateBreaks(broken)).toEqual([
    'src/features/area/low/0.ts has the module state last',
    'src/features/area/low/0.ts has the module state settings',
    'src/features/area/low/1.ts has the module state waiting',
    'src/features/area/low/1.ts has the module state ofApp',
    'src/features/area/low/2.ts has the module state all',
    'src/features/area/low/2.ts has the module state rows',
  ])
})
