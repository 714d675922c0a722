/**
 * @module Prints measurements of the source, one per line, to compare two revisions. `--list NAME` prints what one
 * measurement counts.
 *
 *     bun scripts/measure-source.ts [--at COMMIT] [--list NAME] [--json]
 */
import { mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { parseArgs } from 'node:util'
import { type Node, NodeFlags, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import { API } from 'typescript/unstable/async'

const { values: options } = parseArgs({
  options: {
    at: { type: 'string' },
    root: { type: 'string' },
    list: { type: 'string' },
    json: { type: 'boolean' },
  },
})
const ROOT = realpathSync(options.root ?? process.cwd())
const LONG_FUNCTION_LINES = 80
const LONG_COMMENT_COLUMNS = 120
/** Names of oddLimits that do not begin with MAX or MIN. */
const ODD_LIMITS = /^(?:MOST|LONGEST|LARGEST|GREATEST|WIDEST|FURTHEST|LEAST|SHORTEST|SMALLEST|FEWEST)(?:_|$)/
const OPENERS = /^(?:create|start|open)(?=[A-Z]|$)/

function git(...args: string[]): Uint8Array {
  const { stdout, stderr, exitCode } = Bun.spawnSync(['git', ...args], { cwd: ROOT, maxBuffer: 1 << 30 })
  if (exitCode !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`)
  return stdout
}

function extract(commit: string): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'measure-source-')))
  const { exitCode, stderr } = Bun.spawnSync(['tar', '-x', '-C', folder], { stdin: git('archive', commit) })
  if (exitCode !== 0) throw new Error(`tar: ${stderr}`)
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

/** Properties of a node besides its children; each kind has only some of them. */
interface Parts {
  readonly text?: string
  readonly name?: Node
  readonly expression?: Node
  readonly left?: Node
  readonly body?: Node
  readonly initializer?: Node
  readonly declarationList?: Node & { readonly declarations: Iterable<Node> }
  readonly statements?: Iterable<Node> & { readonly length: number }
  readonly properties?: Iterable<Node>
  readonly elements?: Iterable<Node>
  readonly moduleSpecifier?: Node
  readonly importClause?: Node & {
    readonly phaseModifier?: number
    readonly isTypeOnly?: boolean
    readonly namedBindings?: Node
    readonly name?: Node
  }
  readonly exportClause?: Node
  readonly isTypeOnly?: boolean
  readonly operator?: number
  readonly operatorToken?: Node
}
const toParts = (node: Node | undefined): Parts => (node ?? {}) as unknown as Parts
const getText = (node: Node | undefined): string => toParts(node).text ?? ''
const visitDescendants = (node: Node, visit: (node: Node) => boolean | undefined): void => {
  node.forEachChild((child) => {
    if (visit(child) !== false) visitDescendants(child, visit)
    return undefined
  })
}

// ---- The tree

const root = options.at ? extract(options.at) : ROOT
const api = new API({ cwd: root })
const project = (await api.updateSnapshot({ openProjects: [join(root, 'tsconfig.json')] })).getProjects()[0]
if (!project) throw new Error('There is no tsconfig.json')
const listed = options.at
  ? git('ls-tree', '-r', '-z', '--name-only', options.at)
  : git('ls-files', '-z', '--cached', '--others', '--exclude-standard')
const present = new Map<string, string>()
for (const path of new Set(new TextDecoder().decode(listed).split('\0'))) {
  if (!/\.(?:tsx?|md|sql|html|css)$/.test(path)) continue
  const file = Bun.file(join(root, path))
  if (await file.exists()) present.set(path, await file.text())
}
const sources = new Map<string, SourceFile>()
for (const path of present.keys()) {
  if (!/^(?:src|test)\/.*\.tsx?$/.test(path)) continue
  const file = await project.program.getSourceFile(join(root, path))
  if (file) sources.set(path, file)
}
await api.close()
if (options.at) rmSync(root, { recursive: true, force: true })
const src = [...sources].filter(([path]) => path.startsWith('src/'))

const figures: { name: string; means: string; value: string; items: readonly string[] }[] = []
const addFigure = (name: string, means: string, value: number | string, items: readonly string[] = []): void => {
  figures.push({ name, means, value: typeof value === 'number' ? value.toLocaleString('en-GB') : value, items })
}
const addCount = (name: string, means: string, items: readonly string[]): void =>
  addFigure(name, means, items.length, items)
const findLine = (file: SourceFile, position: number): number => file.text.slice(0, position).split('\n').length
const formatPlace = (path: string, file: SourceFile, node: Node): string =>
  `${path}:${findLine(file, node.getStart(file))}`
const countLines = (text: string): number => text.split('\n').length - (text.endsWith('\n') ? 1 : 0)

// ---- Folders and features

const RULES = 'test/architecture.test.ts'
/**
 * Reads the features by rank from the architecture test: RANK is a list of strings, or built from AREAS, an object of
 * lists, whose features are then "area/feature".
 */
function readRank(): string[] {
  const ranks = readTexts('RANK').map(({ text }) => text)
  if (ranks.length > 0) return ranks
  return readTexts('AREAS').map(({ text, key }) => `${key}/${text}`)
}
function readTexts(name: string): { readonly text: string; readonly key: string }[] {
  const texts: { text: string; key: string }[] = []
  const file = sources.get(RULES)
  const collect = (node: Node, key: string): void => {
    node.forEachChild((child) => {
      if (child.kind === SyntaxKind.PropertyAssignment)
        collect(toParts(child).initializer as Node, getText(toParts(child).name))
      else if (child.kind === SyntaxKind.StringLiteral) texts.push({ text: getText(child), key })
      else collect(child, key)
      return undefined
    })
  }
  if (file)
    visitDescendants(file, (node) => {
      if (node.kind !== SyntaxKind.VariableDeclaration || getText(toParts(node).name) !== name) return true
      collect(toParts(node).initializer as Node, '')
      return false
    })
  return texts
}
const FEATURES = 'src/features/'
const rank = readRank()
/** Finds the feature of a file: the innermost folder of its path that RANK names. */
function findFeature(path: string): string | undefined {
  if (!path.startsWith(FEATURES)) return undefined
  const folders = path.slice(FEATURES.length).split('/').slice(0, -1)
  for (let end = Math.min(folders.length, 2); end > 0; end--) {
    const whole = folders.slice(0, end).join('/')
    if (rank.includes(whole)) return whole
    const last = folders[end - 1]
    if (last !== undefined && rank.includes(last)) return last
  }
  return folders[0]
}
const featureFiles = src.map(([path]) => path).filter((path) => path.startsWith(FEATURES))
const rooms = [
  ...new Set(featureFiles.flatMap((path) => path.slice(FEATURES.length).split('/').slice(0, -1).slice(0, 1))),
].sort()
const deepest = Math.max(0, ...featureFiles.map((path) => path.slice(FEATURES.length).split('/').length - 1))
addCount('rooms', 'folders directly below src/features', rooms)
addFigure('depth', 'folders between src/features and the deepest file', deepest)
addCount('features', 'features that RANK of the architecture test lists', rank)

// ---- Imports of a send

const ALIAS = /^#(app|bench|platform|protocols|features)\//
function listImports(path: string): string[] {
  const file = sources.get(path)
  if (!file) return []
  return [...file.statements].flatMap((statement) => {
    const { moduleSpecifier, importClause, isTypeOnly } = toParts(statement)
    if (!moduleSpecifier || isTypeOnly) return []
    if (/^(?:import|export)\s+type\b/.test(statement.getText(file))) return []
    const named = [...(toParts(importClause?.namedBindings).elements ?? [])]
    if (importClause && !importClause.name && named.length > 0 && named.every((name) => toParts(name).isTypeOnly))
      return []
    const specifier = getText(moduleSpecifier)
    if (ALIAS.test(specifier)) return [`src/${specifier.slice(1)}`]
    return specifier.startsWith('.') ? [normalize(join(dirname(path), specifier))] : []
  })
}
const declares = (file: SourceFile, name: string): boolean =>
  [...file.statements].some(
    (statement) =>
      getText(toParts(statement).name) === name ||
      [...(toParts(statement).declarationList?.declarations ?? [])].some(
        (node) => getText(toParts(node).name) === name,
      ),
  )
const accepts = src.find(([, file]) => declares(file, 'acceptEmail'))?.[0]
const passed = new Set<string>(accepts ? [accepts] : [])
for (let level = 0; level < 2; level++)
  for (const path of [...passed]) for (const to of listImports(path)) if (to.startsWith(FEATURES)) passed.add(to)
addCount(
  'files of a send',
  'below src/features: the file of acceptEmail, what it imports by value, and what these import',
  [...passed].sort(),
)

// ---- SQL

const TEXT_KINDS = new Set([
  SyntaxKind.StringLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateExpression,
])
const SQL =
  /\b(?:SELECT\b[\s\S]*\bFROM|INSERT\s+(?:OR\s+\w+\s+)?INTO|UPDATE\s+(?:OR\s+\w+\s+)?\w+\s+SET|DELETE\s+FROM|CREATE\s+(?:UNIQUE\s+)?(?:INDEX|TABLE|TRIGGER|VIEW)|WHERE|JOIN|RETURNING|HAVING)\b/
/** Lists every SQL string of a file; a template counts as one string without its expressions. */
function listSql(file: SourceFile): { text: string; node: Node }[] {
  const found: { text: string; node: Node }[] = []
  visitDescendants(file, (node) => {
    if (!TEXT_KINDS.has(node.kind)) return true
    const text =
      node.kind === SyntaxKind.TemplateExpression ? node.getText(file).replace(/\$\{[^{}]*\}/g, '?') : getText(node)
    if (SQL.test(text)) found.push({ text, node })
    return node.kind === SyntaxKind.TemplateExpression
  })
  return found
}
const CREATES = /sqliteTable\(\s*'(\w+)'|CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?(\w+)/g
const owners = new Map<string, string>()
for (const [path, file] of src)
  for (const match of file.text.matchAll(CREATES)) {
    const feature = findFeature(path)
    if (feature) owners.set(match[1] ?? match[2] ?? '', feature)
  }
const upward: string[] = []
const codes: string[] = []
/** Matches comparisons of code columns: `status`, `state`, `kind`, `type` and `step`, alone or as a suffix. */
const CODE =
  /\b(?:\w+\.)?(?:\w+_)?(?:status|state|kind|type|step)\s*(?:=|==|IN|NOT IN|<>|!=|>=?|<=?|IS(?: NOT)?)\s*\(?\s*\d+/gi
for (const [path, file] of src) {
  const feature = findFeature(path)
  for (const { text, node } of listSql(file)) {
    for (const [match] of text.matchAll(CODE))
      codes.push(`${formatPlace(path, file, node)} ${match.replace(/\s+/g, ' ')}`)
    if (feature === undefined || !rank.includes(feature)) continue
    for (const [, table = ''] of text.matchAll(/\b(?:FROM|JOIN)\s+(\w+)/g)) {
      const owner = owners.get(table)
      if (owner !== undefined && rank.indexOf(owner) > rank.indexOf(feature))
        upward.push(`${formatPlace(path, file, node)} ${feature} reads ${table} of ${owner}`)
    }
  }
}
addCount(
  'upward reads',
  'FROM or JOIN, in the SQL of a feature, with a table that a feature further down RANK declares',
  upward,
)
addCount(
  'codes in SQL',
  'comparisons in SQL of a column named …status, …state, …kind, …type or …step with a number',
  codes,
)

// ---- Names

const oddLimits: string[] = []
const ofs: string[] = []
const long: string[] = []
const tables: string[] = []
const closures: string[] = []
const mutable: string[] = []

const FUNCTIONS = new Set([
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.FunctionExpression,
  SyntaxKind.ArrowFunction,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.Constructor,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor,
])
const isFunction = (node: Node | undefined): boolean => node !== undefined && FUNCTIONS.has(node.kind)
function findName(node: Node): string {
  const own = getText(toParts(node).name)
  if (own) return own
  return node.parent.kind === SyntaxKind.VariableDeclaration || node.parent.kind === SyntaxKind.PropertyAssignment
    ? getText(toParts(node.parent).name)
    : ''
}

const CHAINED = new Set([
  'get',
  'post',
  'put',
  'patch',
  'delete',
  'route',
  'use',
  'guard',
  'group',
  'command',
  'option',
  'argument',
  'action',
  'addCommand',
  'description',
])
/** Counts the chained Elysia or commander calls of an expression. */
function countChain(node: Node | undefined): number {
  let links = 0
  let at = node
  while (at?.kind === SyntaxKind.CallExpression) {
    const callee = toParts(at).expression
    if (callee?.kind !== SyntaxKind.PropertyAccessExpression) break
    if (CHAINED.has(getText(toParts(callee).name))) links++
    at = toParts(callee).expression
  }
  return links
}
/** Whether a function is a table of routes or commands: over half of its lines are chains of two or more such calls. */
function isTable(node: Node, file: SourceFile): boolean {
  const { body } = toParts(node)
  if (!body) return false
  const total = countHeight(body, file)
  let chained = 0
  const look = (child: Node): boolean => {
    if (countChain(child) >= 2) {
      chained += countHeight(child, file)
      return false
    }
    return !isFunction(child)
  }
  if (look(body)) visitDescendants(body, look)
  return chained * 2 > total
}
const countHeight = (node: Node, file: SourceFile): number =>
  findLine(file, node.end) - findLine(file, node.getStart(file)) + 1

/** Whether a function returns an object that holds functions. */
function returnsFunctions(node: Node): boolean {
  const { body } = toParts(node)
  if (!body) return false
  const local = new Set<string>()
  const returned: Node[] = []
  visitDescendants(body, (child) => {
    if (child.kind === SyntaxKind.FunctionDeclaration) local.add(findName(child))
    if (child.kind === SyntaxKind.VariableDeclaration && isFunction(toParts(child).initializer))
      local.add(getText(toParts(child).name))
    if (child.kind === SyntaxKind.ReturnStatement) {
      const { expression } = toParts(child)
      if (expression?.kind === SyntaxKind.ObjectLiteralExpression) returned.push(expression)
    }
    return !isFunction(child)
  })
  return returned.some((object) =>
    [...(toParts(object).properties ?? [])].some(
      (property) =>
        property.kind === SyntaxKind.MethodDeclaration ||
        (property.kind === SyntaxKind.ShorthandPropertyAssignment && local.has(getText(toParts(property).name))) ||
        isFunction(toParts(property).initializer) ||
        local.has(getText(toParts(property).initializer)),
    ),
  )
}

const COLLECTIONS = /^(?:Map|Set|WeakMap|WeakSet|Array)$/
const MUTATORS =
  /^(?:set|add|delete|clear|push|pop|shift|unshift|splice|sort|reverse|fill|getOrInsert|getOrInsertComputed)$/
function findMutated(file: SourceFile): Set<string> {
  const names = new Set<string>()
  visitDescendants(file, (node) => {
    if (node.kind === SyntaxKind.CallExpression) {
      const callee = toParts(node).expression
      if (callee?.kind === SyntaxKind.PropertyAccessExpression && MUTATORS.test(getText(toParts(callee).name)))
        names.add(getText(toParts(callee).expression))
    } else if (
      node.kind === SyntaxKind.BinaryExpression &&
      toParts(node).left?.kind === SyntaxKind.ElementAccessExpression
    ) {
      const operator = toParts(node).operatorToken?.kind ?? 0
      if (operator >= SyntaxKind.FirstAssignment && operator <= SyntaxKind.LastAssignment)
        names.add(getText(toParts(toParts(node).left).expression))
    }
    return true
  })
  return names
}

for (const [path, file] of src) {
  let mutated: Set<string> | undefined
  for (const statement of file.statements) {
    const list = toParts(statement).declarationList
    for (const declaration of list?.declarations ?? []) {
      const { name, initializer } = toParts(declaration)
      const place = `${formatPlace(path, file, declaration)} ${getText(name)}`
      if (ODD_LIMITS.test(getText(name))) oddLimits.push(place)
      if (list && !(list.flags & NodeFlags.Const)) mutable.push(place)
      else {
        const collection =
          initializer?.kind === SyntaxKind.ArrayLiteralExpression ||
          (initializer?.kind === SyntaxKind.NewExpression && COLLECTIONS.test(getText(toParts(initializer).expression)))
        if (!collection) continue
        mutated ??= findMutated(file)
        if (mutated.has(getText(name))) mutable.push(place)
      }
    }
  }
  visitDescendants(file, (node) => {
    if (!isFunction(node)) return true
    const name = findName(node)
    const place = `${formatPlace(path, file, node)} ${name || '(no name)'}`
    const declared = node.kind === SyntaxKind.FunctionDeclaration || node.parent.kind === SyntaxKind.VariableDeclaration
    if (declared && /[a-z0-9]Of$/.test(name)) ofs.push(place)
    const height = countHeight(node, file)
    if (height <= LONG_FUNCTION_LINES) return true
    if (isTable(node, file)) tables.push(`${place} ${height}`)
    else long.push(`${place} ${height}`)
    if (OPENERS.test(name) && returnsFunctions(node)) closures.push(`${place} ${height}`)
    return true
  })
}
addCount(
  'odd limits',
  'constants at the top of a module named MOST_…, LONGEST_…, LEAST_… and the like, in place of MAX_… or MIN_…',
  oddLimits,
)
addCount('…Of functions', 'functions, declared or constant, whose name ends in Of', ofs)
addCount('long functions', `over ${LONG_FUNCTION_LINES} lines, without tables of routes or commands`, long)
addCount(
  'long tables',
  `functions over ${LONG_FUNCTION_LINES} lines, most of them chained calls of Elysia or commander`,
  tables,
)
addCount(
  'closures',
  `functions over ${LONG_FUNCTION_LINES} lines named create…, start… or open… that return an object of functions`,
  closures,
)
addCount('module state', 'let at the top of a module, and collections there that the module changes', mutable)

// ---- Comments, documents, size

/** Finds long lines of comments; a comment after code does not count. */
function findLongComments(path: string, file: SourceFile): string[] {
  const found: string[] = []
  let block = false
  for (const [index, line] of file.text.split('\n').entries()) {
    const text = line.trim()
    const opens = text.startsWith('/*')
    if ((block || opens || text.startsWith('//')) && line.length > LONG_COMMENT_COLUMNS)
      found.push(`${path}:${index + 1} ${line.length}`)
    if (opens) block = true
    if (text.includes('*/')) block = false
  }
  return found
}
addCount(
  'long comments',
  `lines of src that are comments and exceed ${LONG_COMMENT_COLUMNS} columns`,
  src.flatMap(([path, file]) => findLongComments(path, file)),
)
const countBytes = (path: string): number => new TextEncoder().encode(present.get(path) ?? '').length
addFigure('README', 'bytes', countBytes('README.md'))
addFigure('conformance', 'bytes of docs/conformance.md', countBytes('docs/conformance.md'))
for (const folder of ['src', 'test']) {
  const paths = [...sources.keys()].filter((path) => path.startsWith(`${folder}/`))
  addFigure(`files of ${folder}`, 'TypeScript', paths.length)
  addFigure(
    `lines of ${folder}`,
    'TypeScript',
    paths.reduce((sum, path) => sum + countLines(present.get(path) ?? ''), 0),
  )
}

if (options.list !== undefined) {
  const requested = figures.find(({ name }) => name === options.list)
  if (!requested)
    throw new Error(
      `No measurement is named "${options.list}"; the names are ${figures.map(({ name }) => name).join(', ')}`,
    )
  for (const item of requested.items) console.log(item)
} else if (options.json)
  console.log(JSON.stringify(Object.fromEntries(figures.map(({ name, value }) => [name, value])), null, 2))
else for (const { name, means, value } of figures) console.log(`${name.padEnd(16)}${value.padStart(9)}  ${means}`)
