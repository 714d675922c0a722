/**
 * @module Shows what a refactoring changed: compares the syntax trees of two revisions, file by file. Ignores comments,
 * formatting, the order and paths of imports, parentheses and `{ a }` versus `{ a: a }`. Each name must resolve to the
 * same declaration in both trees: a consistent rename is reported as one, a swapped or captured name as a fault.
 *
 *     bun scripts/compare-trees.ts --from COMMIT [--to COMMIT] [--moved FILE.json] [--only test|src] [--verbose]
 *         [--json]
 *
 * Without --to, the working tree is the second revision. --moved maps old paths to new ones; other moved files are found
 * by similarity. Exit code 0: only binding names, import paths and test titles differ; 1: more than that; 2: wrong
 * usage.
 */
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { parseArgs } from 'node:util'
import { type Node, type NodeArray, NodeFlags, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import { API, type NodeHandle, type Project, type Symbol as Sym, SymbolFlags } from 'typescript/unstable/async'

const { values: options } = parseArgs({
  options: {
    from: { type: 'string' },
    to: { type: 'string' },
    moved: { type: 'string' },
    only: { type: 'string' },
    root: { type: 'string' },
    verbose: { type: 'boolean' },
    json: { type: 'boolean' },
  },
})
const ROOT = realpathSync(options.root ?? process.cwd())
const FOLDERS = ['src', 'test', 'scripts']
/** Minimum fraction of equal lines for two files to count as one that moved. */
const MIN_SIMILARITY = 0.4
/** Maximum number of lines per kind without --verbose. */
const MAX_SHOWN = 40
/** Lists whose product of lengths is larger are compared by position. */
const MAX_ALIGNMENT = 4_000_000

if (!options.from || (options.only && !['src', 'test'].includes(options.only))) {
  console.error('compare-trees --from COMMIT [--to COMMIT] [--moved FILE.json] [--only test|src] [--verbose] [--json]')
  process.exit(2)
}

// ---- Trees

interface Tree {
  readonly root: string
  readonly project: Project
  /** The text of every source file by its path from the root. */
  readonly texts: ReadonlyMap<string, string>
  readonly others: ReadonlyMap<string, string>
  readonly symbols: Map<Node, Sym | undefined>
  readonly close: () => Promise<void>
}

function git(...args: string[]): Uint8Array {
  const { stdout, stderr, exitCode } = Bun.spawnSync(['git', ...args], { cwd: ROOT, maxBuffer: 1 << 30 })
  if (exitCode !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`)
  return stdout
}

function extract(commit: string): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'compare-trees-')))
  mkdirSync(folder, { recursive: true })
  const { exitCode, stderr } = Bun.spawnSync(['tar', '-x', '-C', folder], { stdin: git('archive', commit) })
  if (exitCode !== 0) throw new Error(`tar: ${stderr}`)
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

const isSource = (path: string): boolean => /\.[cm]?[jt]sx?$/.test(path)
const isWanted = (path: string): boolean =>
  options.only ? path.startsWith(`${options.only}/`) : FOLDERS.some((folder) => path.startsWith(`${folder}/`))

async function open(commit: string | undefined): Promise<Tree> {
  const root = commit === undefined ? ROOT : extract(commit)
  const list = commit
    ? git('ls-tree', '-r', '-z', '--name-only', commit)
    : git('ls-files', '-z', '--cached', '--others', '--exclude-standard')
  const api = new API({ cwd: root })
  const snapshot = await api.updateSnapshot({ openProjects: [join(root, 'tsconfig.json')] })
  const project = snapshot.getProjects()[0]
  if (!project) throw new Error(`${root} has no tsconfig.json`)
  const members = new Set(await project.program.getSourceFileNames())
  const texts = new Map<string, string>()
  const others = new Map<string, string>()
  for (const path of new Set(new TextDecoder().decode(list).split('\0'))) {
    if (!isWanted(path)) continue
    const file = Bun.file(join(root, path))
    if (!(await file.exists())) continue
    if (isSource(path) && members.has(join(root, path))) texts.set(path, await file.text())
    else others.set(path, String(Bun.hash(await file.bytes())))
  }
  const close = async (): Promise<void> => {
    await api.close()
    if (commit !== undefined) rmSync(root, { recursive: true, force: true })
  }
  return { root, project, texts, others, symbols: new Map(), close }
}

// ---- Pairs of files

function similarity(a: ReadonlyMap<string, number>, sizeA: number, b: string): number {
  const left = new Map(a)
  const lines = linesOf(b)
  let same = 0
  for (const line of lines) {
    const count = left.get(line) ?? 0
    if (count === 0) continue
    left.set(line, count - 1)
    same++
  }
  return same / Math.max(sizeA, lines.length, 1)
}

const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.length > 2)

function pairFiles(from: Tree, to: Tree): Map<string, string> {
  const pairs = new Map<string, string>()
  const moved = options.moved ? (JSON.parse(readFileSync(options.moved, 'utf8')) as Record<string, string>) : {}
  const taken = new Set<string>()
  const pair = (a: string, b: string): void => {
    pairs.set(a, b)
    taken.add(b)
  }
  for (const [a, b] of Object.entries(moved)) if (from.texts.has(a) && to.texts.has(b)) pair(a, b)
  for (const a of from.texts.keys()) if (!pairs.has(a) && to.texts.has(a) && !taken.has(a)) pair(a, a)
  const candidates: { a: string; b: string; score: number }[] = []
  const added = [...to.texts].filter(([path]) => !taken.has(path))
  for (const [a, text] of from.texts) {
    if (pairs.has(a)) continue
    const lines = linesOf(text)
    const counts = new Map<string, number>()
    for (const line of lines) counts.set(line, (counts.get(line) ?? 0) + 1)
    for (const [b, other] of added) {
      const score = similarity(counts, lines.length, other)
      if (score >= MIN_SIMILARITY) candidates.push({ a, b, score })
    }
  }
  for (const { a, b } of candidates.sort((x, y) => y.score - x.score)) if (!pairs.has(a) && !taken.has(b)) pair(a, b)
  return pairs
}

// ---- Nodes

/** Properties of a node besides its children; each kind has only some of them. */
interface Parts {
  readonly text?: string
  readonly name?: Node
  readonly propertyName?: Node
  readonly label?: Node
  readonly right?: Node
  readonly qualifier?: Node
  readonly expression?: Node
  readonly initializer?: Node
  readonly objectAssignmentInitializer?: Node
  readonly operator?: number
  readonly token?: number
  readonly keywordToken?: number
  readonly condition?: Node
  readonly incrementor?: Node
  readonly constraint?: Node
  readonly defaultType?: Node
  readonly isTypeOf?: boolean
  readonly isExportEquals?: boolean
  readonly dotDotDotToken?: Node
  readonly arguments?: NodeArray<Node>
  readonly tag?: Node
}
const partsOf = (node: Node): Parts => node as unknown as Parts

type Child = Node | readonly Node[]

function bare(node: Node): Node {
  let inner = node
  while (inner.kind === SyntaxKind.ParenthesizedExpression || inner.kind === SyntaxKind.ParenthesizedType)
    inner = partsOf(inner).expression ?? (inner as unknown as { type: Node }).type
  return inner
}

const IGNORED = new Set([SyntaxKind.EmptyStatement, SyntaxKind.ImportDeclaration, SyntaxKind.EndOfFile])

const childrenCache = new Map<Node, readonly Child[]>()
function childrenOf(node: Node): readonly Child[] {
  const known = childrenCache.get(node)
  if (known) return known
  const children: Child[] = []
  node.forEachChild(
    (child) => {
      if (!IGNORED.has(child.kind)) children.push(bare(child))
      return undefined
    },
    (list) => {
      const relevant = [...list].filter((child) => !IGNORED.has(child.kind)).map(bare)
      if (relevant.length > 0) children.push(relevant)
      return undefined
    },
  )
  childrenCache.set(node, children)
  return children
}

const TEXTS = new Set([
  SyntaxKind.StringLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.NumericLiteral,
  SyntaxKind.BigIntLiteral,
  SyntaxKind.RegularExpressionLiteral,
  SyntaxKind.TemplateHead,
  SyntaxKind.TemplateMiddle,
  SyntaxKind.TemplateTail,
])
const isString = (node: Node): boolean =>
  node.kind === SyntaxKind.StringLiteral || node.kind === SyntaxKind.NoSubstitutionTemplateLiteral

/** Returns a kind that is equal for `{ a }` and `{ a: a }`, and for 'a' and `a`. */
function kindOf(node: Node): number {
  if (node.kind === SyntaxKind.ShorthandPropertyAssignment && !partsOf(node).objectAssignmentInitializer)
    return SyntaxKind.PropertyAssignment
  if (
    node.kind === SyntaxKind.NoSubstitutionTemplateLiteral &&
    node.parent.kind !== SyntaxKind.TaggedTemplateExpression
  )
    return SyntaxKind.StringLiteral
  return node.kind
}

/** Returns what distinguishes nodes of one kind besides their children. */
function detailOf(node: Node): string {
  const parts = partsOf(node)
  switch (node.kind) {
    case SyntaxKind.PrefixUnaryExpression:
    case SyntaxKind.PostfixUnaryExpression:
    case SyntaxKind.TypeOperator:
      return String(parts.operator)
    case SyntaxKind.HeritageClause:
      return String(parts.token)
    case SyntaxKind.MetaProperty:
      return String(parts.keywordToken)
    case SyntaxKind.VariableDeclarationList:
      return String(node.flags & NodeFlags.BlockScoped)
    case SyntaxKind.ForStatement:
      return [parts.initializer, parts.condition, parts.incrementor].map((part) => (part ? 1 : 0)).join('')
    case SyntaxKind.TypeParameter:
      return [parts.constraint, parts.defaultType].map((part) => (part ? 1 : 0)).join('')
    case SyntaxKind.ImportType:
      return String(parts.isTypeOf ?? false)
    case SyntaxKind.ExportAssignment:
      return String(parts.isExportEquals ?? false)
    default:
      return ''
  }
}

const NAMED_MEMBERS = new Set([
  SyntaxKind.PropertyAccessExpression,
  SyntaxKind.PropertyAssignment,
  SyntaxKind.PropertyDeclaration,
  SyntaxKind.PropertySignature,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.MethodSignature,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor,
  SyntaxKind.EnumMember,
  SyntaxKind.NamedTupleMember,
  SyntaxKind.JsxAttribute,
  SyntaxKind.MetaProperty,
])
const LABELLED = new Set([SyntaxKind.LabeledStatement, SyntaxKind.BreakStatement, SyntaxKind.ContinueStatement])

/** Whether a name is looked up in an object or a module, not in a scope. */
function isMember(node: Node): boolean {
  const parent = node.parent
  const parts = partsOf(parent)
  if (NAMED_MEMBERS.has(parent.kind)) return parts.name === node
  if (parent.kind === SyntaxKind.QualifiedName) return parts.right === node
  if (parent.kind === SyntaxKind.ImportType) return parts.qualifier === node
  if (parent.kind === SyntaxKind.BindingElement) return parts.propertyName === node
  return false
}

const DECLARES = new Set([
  SyntaxKind.VariableDeclaration,
  SyntaxKind.Parameter,
  SyntaxKind.BindingElement,
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.FunctionExpression,
  SyntaxKind.ClassDeclaration,
  SyntaxKind.ClassExpression,
  SyntaxKind.InterfaceDeclaration,
  SyntaxKind.TypeAliasDeclaration,
  SyntaxKind.TypeParameter,
  SyntaxKind.EnumDeclaration,
])
const isDeclaredName = (node: Node): boolean => DECLARES.has(node.parent.kind) && partsOf(node.parent).name === node

const prints = new Map<Node, string>()
/** Prints the structure of a node with its literals and properties, but without binding names. */
function printOf(node: Node): string {
  const known = prints.get(node)
  if (known !== undefined) return known
  let text: string
  const parts = partsOf(node)
  if (node.kind === SyntaxKind.Identifier) text = isMember(node) ? `.${parts.text}` : '_'
  else if (node.kind === SyntaxKind.PrivateIdentifier) text = '#'
  else if (TEXTS.has(node.kind)) text = `${kindOf(node)}${JSON.stringify(parts.text)}`
  else if (node.kind === SyntaxKind.ShorthandPropertyAssignment && kindOf(node) === SyntaxKind.PropertyAssignment)
    text = `${kindOf(node)}(.${partsOf(parts.name as Node).text},_)`
  else if (node.kind === SyntaxKind.BindingElement)
    text = `${node.kind}(${memberNameOf(node)},${[parts.dotDotDotToken, parts.name, parts.initializer].map((part) => (part ? printOf(bare(part)) : '')).join(',')})`
  else
    text = `${kindOf(node)}${detailOf(node)}(${childrenOf(node)
      .map((child) => (isList(child) ? `[${child.map(printOf).join(',')}]` : printOf(child)))
      .join(',')})`
  const print = text.length > 64 ? Bun.hash(text).toString(36) : text
  prints.set(node, print)
  return print
}

const isList = (child: Child): child is readonly Node[] => Array.isArray(child)

/** Returns the property that an element of an object pattern reads; '' for an array pattern. */
function memberNameOf(node: Node): string {
  const { propertyName, name, dotDotDotToken } = partsOf(node)
  if (node.parent.kind !== SyntaxKind.ObjectBindingPattern || dotDotDotToken) return ''
  const from = propertyName ?? name
  if (!from) return ''
  return partsOf(from).text ?? printOf(from)
}

// ---- Findings

type Kind = 'fault' | 'property' | 'literal' | 'structure'
interface Finding {
  readonly kind: Kind
  readonly where: string
  readonly text: string
  readonly a: Node | undefined
  readonly b: Node | undefined
}
const findings: Finding[] = []
const retitled: { where: string; from: string; to: string }[] = []
const movedPaths: { where: string; from: string; to: string }[] = []
const renames = new Map<string, { where: string; from: string; to: string; count: number }>()
/** Maps nodes of the first tree to their counterparts in the second. */
const counterparts = new Map<Node, Node>()
const namePairs: { a: Node; b: Node; member: boolean }[] = []

const lineOf = (file: SourceFile, position: number): number => file.text.slice(0, position).split('\n').length
let trees: readonly [Tree, Tree]
let files: ReadonlyMap<string, string>
let filesBack: ReadonlyMap<string, string>

const pathOf = (tree: Tree, file: SourceFile): string => file.fileName.slice(tree.root.length + 1)
function whereOf(node: Node, tree: Tree): string {
  const file = node.getSourceFile()
  return `${pathOf(tree, file)}:${lineOf(file, node.getStart(file))}`
}
const short = (node: Node): string => {
  const text = node.getText(node.getSourceFile()).replace(/\s+/g, ' ')
  return text.length > 100 ? `${text.slice(0, 97)}…` : text
}
function find(kind: Kind, a: Node | undefined, b: Node | undefined, text?: string): void {
  const where = b ? whereOf(b, trees[1]) : a ? `${whereOf(a, trees[0])} (before)` : ''
  const change = a && b ? `${short(a)}  ->  ${short(b)}` : a ? `removed: ${short(a)}` : b ? `added: ${short(b)}` : ''
  findings.push({ kind, where, text: text ?? change, a, b })
}

// ---- The parallel walk

function align(as: readonly Node[], bs: readonly Node[]): [Node | undefined, Node | undefined][] {
  let start = 0
  while (start < as.length && start < bs.length && printOf(as[start] as Node) === printOf(bs[start] as Node)) start++
  let end = 0
  while (
    end < as.length - start &&
    end < bs.length - start &&
    printOf(as[as.length - 1 - end] as Node) === printOf(bs[bs.length - 1 - end] as Node)
  )
    end++
  const pairs: [Node | undefined, Node | undefined][] = []
  for (let i = 0; i < start; i++) pairs.push([as[i], bs[i]])
  pairs.push(...alignMiddle(as.slice(start, as.length - end), bs.slice(start, bs.length - end)))
  for (let i = end; i > 0; i--) pairs.push([as[as.length - i], bs[bs.length - i]])
  return pairs
}

/** Aligns by longest common subsequence of structure; nodes between two matches are paired by kind, in order. */
function alignMiddle(as: readonly Node[], bs: readonly Node[]): [Node | undefined, Node | undefined][] {
  const n = as.length
  const m = bs.length
  const pairs: [Node | undefined, Node | undefined][] = []
  if (n === 0 || m === 0 || n * m > MAX_ALIGNMENT) {
    for (let i = 0; i < Math.max(n, m); i++) pairs.push([as[i], bs[i]])
    return pairs
  }
  const textsA = as.map((node) => node.getText(node.getSourceFile()))
  const textsB = bs.map((node) => node.getText(node.getSourceFile()))
  const weight = (i: number, j: number): number =>
    printOf(as[i] as Node) !== printOf(bs[j] as Node) ? 0 : textsA[i] === textsB[j] ? 3 : 2
  const best = Array.from({ length: n + 1 }, () => new Uint32Array(m + 1))
  const at = (i: number, j: number): number => best[i]?.[j] ?? 0
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--) {
      const w = weight(i, j)
      ;(best[i] as Uint32Array)[j] = Math.max(at(i + 1, j), at(i, j + 1), w > 0 ? at(i + 1, j + 1) + w : 0)
    }
  let gapA: Node[] = []
  let gapB: Node[] = []
  const flush = (): void => {
    pairs.push(...pairGap(gapA, gapB))
    gapA = []
    gapB = []
  }
  let i = 0
  let j = 0
  while (i < n && j < m) {
    const w = weight(i, j)
    if (w > 0 && at(i, j) === at(i + 1, j + 1) + w) {
      flush()
      pairs.push([as[i++], bs[j++]])
    } else if (at(i, j) === at(i + 1, j)) gapA.push(as[i++] as Node)
    else gapB.push(bs[j++] as Node)
  }
  gapA.push(...as.slice(i))
  gapB.push(...bs.slice(j))
  flush()
  return pairs
}

function pairGap(as: readonly Node[], bs: readonly Node[]): [Node | undefined, Node | undefined][] {
  if (as.length === bs.length) return as.map((a, i) => [a, bs[i]])
  const pairs: [Node | undefined, Node | undefined][] = []
  const rest = [...bs]
  for (const a of as) {
    const at = rest.findIndex((b) => kindOf(b) === kindOf(a) && wordsOf(a, b) >= MIN_SIMILARITY)
    if (at < 0) pairs.push([a, undefined])
    else {
      for (const b of rest.splice(0, at)) pairs.push([undefined, b])
      pairs.push([a, rest.shift()])
    }
  }
  for (const b of rest) pairs.push([undefined, b])
  return pairs
}

/** Returns the fraction of words that two nodes share. */
function wordsOf(a: Node, b: Node): number {
  const [left, right] = [a, b].map((node) => new Set(node.getText(node.getSourceFile()).match(/\w+/g) ?? []))
  if (!left || !right) return 0
  return left.intersection(right).size / Math.max(left.size, right.size, 1)
}

function walk(a: Node, b: Node): void {
  if (kindOf(a) !== kindOf(b) || detailOf(a) !== detailOf(b)) {
    if (isMemberText(a) && isMemberText(b)) member(a, b)
    else find('structure', a, b)
    return
  }
  counterparts.set(a, b)
  if (a.kind === SyntaxKind.Identifier || a.kind === SyntaxKind.PrivateIdentifier) names(a, b)
  else if (TEXTS.has(a.kind)) texts(a, b)
  else if (kindOf(a) === SyntaxKind.PropertyAssignment) assignments(a, b)
  else if (a.kind === SyntaxKind.BindingElement) elements(a, b)
  else if (a.kind === SyntaxKind.TemplateExpression) templates(a, b)
  else children(a, b)
}

/** Compares a template as one literal. */
function templates(a: Node, b: Node): void {
  const start = findings.length
  children(a, b)
  const inner = findings.splice(start)
  const isOwn = (finding: Finding): boolean =>
    finding.kind === 'structure' || (finding.kind === 'literal' && finding.a !== undefined && isTemplatePart(finding.a))
  if (inner.some(isOwn)) find('literal', a, b)
  findings.push(...inner.filter((finding) => !isOwn(finding)))
}

const isTemplatePart = (node: Node): boolean =>
  node.kind === SyntaxKind.TemplateHead ||
  node.kind === SyntaxKind.TemplateMiddle ||
  node.kind === SyntaxKind.TemplateTail

function children(a: Node, b: Node): void {
  const as = childrenOf(a)
  const bs = childrenOf(b)
  const fits = as.length === bs.length && as.every((child, i) => isList(child) === isList(bs[i] as Child))
  if (!fits) {
    // A declaration that gained or lost a child: the common children are still walked to pair their names.
    find('structure', a, b)
    const lists = [as.filter(isList), bs.filter(isList)] as const
    const singles = [as.filter((c) => !isList(c)), bs.filter((c) => !isList(c))] as unknown as [Node[], Node[]]
    if (lists[0].length === lists[1].length)
      lists[0].forEach((list, i) => {
        common(list, lists[1][i] ?? [])
      })
    common(...singles)
    return
  }
  as.forEach((child, i) => {
    const other = bs[i] as Child
    if (!isList(child)) walk(child, other as Node)
    else
      for (const [x, y] of align(child, other as readonly Node[]))
        if (x && y) walk(x, y)
        else find('structure', x, y)
  })
}

/** Walks the common nodes of two lists whose difference is already reported. */
function common(as: readonly Node[], bs: readonly Node[]): void {
  for (const [x, y] of align(as, bs)) if (x && y && kindOf(x) === kindOf(y)) walk(x, y)
}

const isMemberText = (node: Node): boolean => (node.kind === SyntaxKind.Identifier || isString(node)) && isMember(node)

function member(a: Node, b: Node): void {
  if (partsOf(a).text !== partsOf(b).text) namePairs.push({ a, b, member: true })
}

function names(a: Node, b: Node): void {
  if (LABELLED.has(a.parent.kind) && partsOf(a.parent).label === a) {
    if (partsOf(a).text !== partsOf(b).text) renamed(a, a, b)
  } else if (a.kind === SyntaxKind.PrivateIdentifier) namePairs.push({ a, b, member: false })
  else if (isMember(a)) member(a, b)
  else if (isDeclaredName(a) && isDeclaredName(b)) {
    if (partsOf(a).text !== partsOf(b).text) renamed(a.parent, a, b)
  } else namePairs.push({ a, b, member: false })
}

function assignments(a: Node, b: Node): void {
  const [nameA, nameB] = [partsOf(a).name as Node, partsOf(b).name as Node]
  const [textA, textB] = [partsOf(nameA).text, partsOf(nameB).text]
  if (textA === undefined || textB === undefined) {
    if (kindOf(nameA) === kindOf(nameB)) walk(nameA, nameB)
    else find('structure', a, b)
  } else if (textA !== textB) find('property', nameA, nameB, `${textA}  ->  ${textB}`)
  walk(assignedTo(a), assignedTo(b))
}
const assignedTo = (node: Node): Node =>
  node.kind === SyntaxKind.ShorthandPropertyAssignment
    ? (partsOf(node).name as Node)
    : bare(partsOf(node).initializer as Node)

function elements(a: Node, b: Node): void {
  const [from, to] = [a, b].map(memberNameOf)
  const [partsA, partsB] = [partsOf(a), partsOf(b)]
  if (from !== to) {
    const [left, right] = [partsA.propertyName ?? partsA.name, partsB.propertyName ?? partsB.name]
    if (left && right) namePairs.push({ a: left, b: right, member: true })
  } else if (partsA.propertyName && partsB.propertyName && partsOf(partsA.propertyName).text === undefined)
    walk(partsA.propertyName, partsB.propertyName)
  if (Boolean(partsA.dotDotDotToken) !== Boolean(partsB.dotDotDotToken)) find('structure', a, b)
  if (partsA.name && partsB.name) walk(partsA.name, partsB.name)
  if (partsA.initializer && partsB.initializer) walk(bare(partsA.initializer), bare(partsB.initializer))
  else if (partsA.initializer || partsB.initializer) find('structure', a, b)
}

function texts(a: Node, b: Node): void {
  const [from, to] = [partsOf(a).text ?? '', partsOf(b).text ?? '']
  if (from === to) return
  if (isMemberText(a) && isMemberText(b)) {
    member(a, b)
    return
  }
  const where = whereOf(b, trees[1])
  if (isString(a) && isTitle(a)) retitled.push({ where, from, to })
  else if (isString(a) && samePath(a, b, from, to)) movedPaths.push({ where, from, to })
  else find('literal', a, b)
}

/** Whether two import paths, relative or aliases of package.json, lead to the same module after its move. */
function samePath(a: Node, b: Node, from: string, to: string): boolean {
  const before = placeOf(pathOf(trees[0], a.getSourceFile()), from)
  const after = placeOf(pathOf(trees[1], b.getSourceFile()), to)
  if (before === undefined || after === undefined) return resolves(trees[0], a, from) === resolves(trees[1], b, to)
  return before === after || files.get(before) === after || othersBefore.get(before) === othersAfter.get(after)
}
/**
 * Resolves a relative path to a file outside of the compared folders; for any other text returns a new symbol, which
 * equals nothing.
 */
function resolves(tree: Tree, node: Node, path: string): string | symbol {
  return /^\.\.?\//.test(path) ? normalize(join(dirname(pathOf(tree, node.getSourceFile())), path)) : Symbol(path)
}
let othersBefore: ReadonlyMap<string, string>
let othersAfter: ReadonlyMap<string, string>

function placeOf(file: string, path: string): string | undefined {
  const known = (place: string): boolean =>
    files.has(place) || filesBack.has(place) || othersBefore.has(place) || othersAfter.has(place)
  const places = path.startsWith('#')
    ? [`src/${path.slice(1)}`, path.slice(1)]
    : [normalize(join(dirname(file), path)), normalize(path), join('src', path)]
  return places.find(known)
}

const TESTS = /^(?:test|describe|it|xtest|xdescribe)$/
function rootOf(node: Node): Node {
  let at = node
  for (;;) {
    if (at.kind === SyntaxKind.CallExpression || at.kind === SyntaxKind.PropertyAccessExpression)
      at = partsOf(at).expression as Node
    else if (at.kind === SyntaxKind.NonNullExpression || at.kind === SyntaxKind.ParenthesizedExpression)
      at = partsOf(at).expression as Node
    else return at
  }
}
function isTitle(node: Node): boolean {
  const call = node.parent
  return (
    call.kind === SyntaxKind.CallExpression &&
    partsOf(call).arguments?.[0] === node &&
    TESTS.test(partsOf(rootOf(call)).text ?? '')
  )
}

function renamed(declaration: Node, a: Node, b: Node): void {
  const [from, to] = [partsOf(a).text ?? '', partsOf(b).text ?? '']
  const where = whereOf(declaration, trees[0])
  const key = `${where} ${declaration.pos} ${from} ${to}`
  const entry = renames.get(key) ?? { where, from, to, count: 0 }
  entry.count++
  renames.set(key, entry)
}

// ---- Meanings of names

async function resolveNames(tree: Tree, nodes: readonly Node[]): Promise<void> {
  const { checker } = tree.project
  const byFile = Map.groupBy(nodes, (node) => node.getSourceFile())
  for (const list of byFile.values()) {
    const shorthand = list.filter((node) => node.parent.kind === SyntaxKind.ShorthandPropertyAssignment)
    const exported = list.filter((node) => node.parent.kind === SyntaxKind.ExportSpecifier)
    const plain = list.filter((node) => !shorthand.includes(node))
    const symbols = await checker.getSymbolAtLocation(plain)
    plain.forEach((node, i) => {
      tree.symbols.set(node, symbols[i])
    })
    const values = await Promise.all(shorthand.map((node) => checker.getShorthandAssignmentValueSymbol(node.parent)))
    shorthand.forEach((node, i) => {
      tree.symbols.set(node, values[i])
    })
    const targets = await Promise.all(
      exported.map((node) => checker.getExportSpecifierLocalTargetSymbol(node.parent).catch(() => undefined)),
    )
    exported.forEach((node, i) => {
      tree.symbols.set(node, targets[i] ?? tree.symbols.get(node))
    })
  }
  const aliases = new Map<Sym, Promise<Sym>>()
  for (const [, symbol] of tree.symbols)
    if (symbol && symbol.flags & SymbolFlags.Alias && !aliases.has(symbol))
      aliases.set(symbol, checker.getAliasedSymbol(symbol))
  await Promise.all(aliases.values())
  for (const [node, symbol] of tree.symbols) {
    const target = symbol && (await aliases.get(symbol))
    if (target && target.declarations.length > 0) tree.symbols.set(node, target)
  }
}

interface Meaning {
  /** The declarations as text, outside of the files that differ. */
  readonly places: readonly string[]
  readonly nodes: readonly Node[]
}
let changed: readonly [ReadonlySet<string>, ReadonlySet<string>]

async function meaningOf(side: 0 | 1, symbol: Sym): Promise<Meaning> {
  const tree = trees[side]
  const places: string[] = []
  const nodes: Node[] = []
  for (const handle of symbol.declarations) {
    const inside = handle.path.startsWith(`${tree.root}/`) && !handle.path.includes('/node_modules/')
    if (!inside) {
      places.push(`${handle.path.replace(/^.*?\/node_modules\//, '')}#${handle.index}`)
      continue
    }
    const path = handle.path.slice(tree.root.length + 1)
    const paired = side === 0 ? (files.get(path) ?? path) : path
    if (!changed[side].has(path)) places.push(`${paired}#${handle.index}`)
    else {
      const node = await handleNode(handle, tree)
      if (node?.kind === SyntaxKind.SourceFile) places.push(`${paired}#module`)
      else if (node && isImport(node)) places.push(importOf(side, node))
      else if (node) nodes.push(node)
    }
  }
  return { places, nodes }
}
const handleNode = async (handle: NodeHandle, tree: Tree): Promise<Node | undefined> => handle.resolve(tree.project)

const IMPORTS = new Set([SyntaxKind.ImportSpecifier, SyntaxKind.ImportClause, SyntaxKind.NamespaceImport])
const isImport = (node: Node): boolean => IMPORTS.has(node.kind)

/** Describes an import that the compiler cannot resolve, such as a text file, by its path and name. */
function importOf(side: 0 | 1, node: Node): string {
  let declaration = node
  while (declaration.kind !== SyntaxKind.ImportDeclaration) declaration = declaration.parent
  const specifier = (declaration as unknown as { moduleSpecifier: Node }).moduleSpecifier
  const text = partsOf(specifier).text ?? ''
  const place = placeOf(pathOf(trees[side], node.getSourceFile()), text)
  const shared =
    place === undefined
      ? text
      : side === 0
        ? (files.get(place) ?? othersBefore.get(place) ?? place)
        : files.has(place) || filesBack.has(place)
          ? place
          : (othersAfter.get(place) ?? place)
  const parts = partsOf(node)
  const name =
    node.kind === SyntaxKind.ImportSpecifier ? partsOf((parts.propertyName ?? parts.name) as Node).text : node.kind
  return `import ${shared} ${name}`
}

const meanings: readonly [Map<Sym, Promise<Meaning>>, Map<Sym, Promise<Meaning>>] = [new Map(), new Map()]
function meaning(side: 0 | 1, symbol: Sym): Promise<Meaning> {
  let found = meanings[side].get(symbol)
  if (!found) {
    found = meaningOf(side, symbol)
    meanings[side].set(symbol, found)
  }
  return found
}

async function compareNames(): Promise<void> {
  await resolveNames(
    trees[0],
    namePairs.map(({ a }) => a),
  )
  await resolveNames(
    trees[1],
    namePairs.map(({ b }) => b),
  )
  for (const { a, b, member: isProperty } of namePairs) {
    const [from, to] = [partsOf(a).text ?? '', partsOf(b).text ?? '']
    const [symbolA, symbolB] = [trees[0].symbols.get(a), trees[1].symbols.get(b)]
    const declared = symbolA?.declarations.length ? await meaning(0, symbolA) : undefined
    const declaredNow = symbolB?.declarations.length ? await meaning(1, symbolB) : undefined
    const change = `${from}  ->  ${to}`
    if (!declared || !declaredNow) {
      if (isProperty) find('property', a, b, change)
      else if (from !== to || Boolean(declared) !== Boolean(declaredNow))
        find('fault', a, b, `${change}: declared in one tree only`)
      continue
    }
    const known = declared.nodes.map((node) => counterparts.get(node))
    const same =
      declared.places.some((place) => declaredNow.places.includes(place)) ||
      known.some((node) => node && declaredNow.nodes.includes(node))
    const exported = declared.nodes.some((node) => DECLARES.has(node.kind))
    if (isProperty && !(same && exported)) find('property', a, b, change)
    else if (same) {
      if (from !== to) renamed(declared.nodes[0] ?? a, a, b)
    } else if (from === to && declared.places.length === 0 && known.every((node) => node === undefined)) {
      // The declaration itself changed or moved, which is reported at the declaration.
      unpaired++
    } else {
      const [before, now] = [declared, declaredNow].map(({ nodes, places }, side) =>
        nodes[0] ? whereOf(nodes[0], trees[side as 0 | 1]) : (places[0] ?? '?'),
      )
      find('fault', a, b, `${from === to ? from : change} means ${now}, but meant ${before}`)
    }
  }
}
let unpaired = 0

// ---- Assertions

/** Finds every `expect(…)…` in a file by its outermost call. */
function assertionsIn(file: Node): Node[] {
  const found: Node[] = []
  const visit = (node: Node): undefined => {
    if (node.kind === SyntaxKind.CallExpression && partsOf(rootOf(node)).text === 'expect' && isOutermost(node))
      found.push(node)
    node.forEachChild(visit)
    return undefined
  }
  visit(file)
  return found
}
function isOutermost(node: Node): boolean {
  const parent = node.parent
  return !(
    (parent.kind === SyntaxKind.PropertyAccessExpression || parent.kind === SyntaxKind.CallExpression) &&
    partsOf(parent).expression === node
  )
}

const assertions = { unchanged: 0, changed: [] as string[], added: [] as string[], removed: [] as string[] }
function compareAssertions(a: SourceFile | undefined, b: SourceFile | undefined, differing: readonly Finding[]): void {
  const before = a ? assertionsIn(a) : []
  const after = new Set(b ? assertionsIn(b) : [])
  const lone: Node[] = []
  for (const node of before) {
    const other = counterparts.get(node)
    if (!other || !after.delete(other)) {
      lone.push(node)
      continue
    }
    const touched = differing.some(({ a: x, b: y }) => (x && within(x, node)) || (y && within(y, other)))
    if (touched) assertions.changed.push(`${whereOf(other, trees[1])} ${short(node)}  ->  ${short(other)}`)
    else assertions.unchanged++
  }
  for (const node of lone) {
    // An assertion that occurs elsewhere in the file counts as unchanged.
    const twin = [...after].find((other) => printOf(other) === printOf(node) && other.getText(b) === node.getText(a))
    if (twin) {
      after.delete(twin)
      assertions.unchanged++
    } else assertions.removed.push(`${whereOf(node, trees[0])} ${short(node)}`)
  }
  for (const node of after) assertions.added.push(`${whereOf(node, trees[1])} ${short(node)}`)
}
function within(inner: Node, outer: Node): boolean {
  return inner.getSourceFile() === outer.getSourceFile() && inner.pos >= outer.pos && inner.end <= outer.end
}

/** Lists modules that are imported only for their side effects. */
function effectsOf(side: 0 | 1, file: SourceFile): string[] {
  return [...file.statements].flatMap((statement) => {
    const { importClause, moduleSpecifier } = statement as unknown as { importClause?: Node; moduleSpecifier?: Node }
    if (statement.kind !== SyntaxKind.ImportDeclaration || importClause || !moduleSpecifier) return []
    const text = partsOf(moduleSpecifier).text ?? ''
    const place = placeOf(pathOf(trees[side], file), text) ?? text
    return [side === 0 ? (files.get(place) ?? place) : place]
  })
}

// ---- The run

const from = await open(options.from)
const to = await open(options.to)
try {
  trees = [from, to]
  files = pairFiles(from, to)
  filesBack = new Map([...files].map(([a, b]) => [b, a]))
  othersBefore = from.others
  othersAfter = to.others
  const differing = [...files].filter(([a, b]) => from.texts.get(a) !== to.texts.get(b))
  changed = [new Set(differing.map(([a]) => a)), new Set(differing.map(([, b]) => b))]
  const sources: [SourceFile, SourceFile][] = []
  for (const [a, b] of differing) {
    const before = await from.project.program.getSourceFile(join(from.root, a))
    const after = await to.project.program.getSourceFile(join(to.root, b))
    if (!before || !after) throw new Error(`${b} is not part of the program`)
    sources.push([before, after])
    walk(before, after)
    const [effects, effectsNow] = [effectsOf(0, before).sort().join(' '), effectsOf(1, after).sort().join(' ')]
    if (effects !== effectsNow) find('structure', before, after, `imports for effect: ${effects}  ->  ${effectsNow}`)
  }
  await compareNames()

  const removed = [...from.texts.keys()].filter((path) => !files.has(path))
  const added = [...to.texts.keys()].filter((path) => !filesBack.has(path))
  const byFile = Map.groupBy(findings, ({ a, b }) => (b ?? a)?.getSourceFile())
  for (const [a, b] of sources)
    if (pathOf(to, b).startsWith('test/')) compareAssertions(a, b, [...(byFile.get(b) ?? []), ...(byFile.get(a) ?? [])])
  for (const path of removed.filter((name) => name.startsWith('test/')))
    compareAssertions(await from.project.program.getSourceFile(join(from.root, path)), undefined, [])
  for (const path of added.filter((name) => name.startsWith('test/')))
    compareAssertions(undefined, await to.project.program.getSourceFile(join(to.root, path)), [])

  const otherFiles = [...othersBefore].flatMap(([path, hash]) =>
    othersAfter.has(path)
      ? othersAfter.get(path) === hash
        ? []
        : [`changed ${path}`]
      : [...othersAfter.values()].includes(hash)
        ? []
        : [`removed ${path}`],
  )
  const known = new Set(othersBefore.values())
  for (const [path, hash] of othersAfter)
    if (!othersBefore.has(path) && !known.has(hash)) otherFiles.push(`added ${path}`)

  const of = (kind: Kind): string[] =>
    findings.filter((finding) => finding.kind === kind).map(({ where, text }) => `${where} ${text}`)
  const report = {
    files: { compared: files.size, differing: differing.length, moved: [...files].filter(([a, b]) => a !== b).length },
    added,
    removed,
    otherFiles,
    faults: of('fault'),
    structure: of('structure'),
    literals: of('literal'),
    properties: of('property'),
    renames: [...renames.values()],
    retitled,
    movedPaths,
    assertions,
    unpaired,
  }
  const clean =
    [report.faults, report.structure, report.literals, report.properties, added, removed, otherFiles].every(
      (list) => list.length === 0,
    ) && assertions.removed.length + assertions.added.length + assertions.changed.length === 0
  if (options.json) console.log(JSON.stringify(report, null, 2))
  else print(report)
  process.exitCode = clean ? 0 : 1
} finally {
  await Promise.all([from.close(), to.close()])
}

interface Report {
  readonly files: { readonly compared: number; readonly differing: number; readonly moved: number }
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly otherFiles: readonly string[]
  readonly faults: readonly string[]
  readonly structure: readonly string[]
  readonly literals: readonly string[]
  readonly properties: readonly string[]
  readonly renames: readonly { where: string; from: string; to: string; count: number }[]
  readonly retitled: readonly { where: string; from: string; to: string }[]
  readonly movedPaths: readonly { where: string; from: string; to: string }[]
  readonly assertions: typeof assertions
  readonly unpaired: number
}

function print(report: Report): void {
  const show = (title: string, lines: readonly string[]): void => {
    if (lines.length === 0) return
    console.log(`\n${title}`)
    const most = options.verbose ? lines.length : MAX_SHOWN
    for (const line of lines.slice(0, most)) console.log(`  ${line}`)
    if (lines.length > most) console.log(`  … and ${lines.length - most} more (--verbose)`)
  }
  const pairs = (list: Report['retitled']): string[] =>
    list.map((entry) => `${entry.where} ${entry.from}  ->  ${entry.to}`)
  show(
    'Renamed bindings',
    report.renames.map((entry) => `${entry.where} ${entry.from}  ->  ${entry.to} (${entry.count})`),
  )
  if (options.verbose) show('Paths of files that moved', pairs(report.movedPaths))
  show('Retitled tests', pairs(report.retitled))
  show('Renamed properties', report.properties)
  show('Changed literals', report.literals)
  show('Changed structure', report.structure)
  show('Names that mean something else', report.faults)
  show('Assertions changed', report.assertions.changed)
  show('Assertions removed', report.assertions.removed)
  show('Assertions added', report.assertions.added)
  show('Files added', report.added)
  show('Files removed', report.removed)
  show('Other files', report.otherFiles)
  const rows: [string, number | string][] = [
    ['files compared', report.files.compared],
    ['files that differ', report.files.differing],
    ['files moved', report.files.moved],
    ['files added, removed', `${report.added.length}, ${report.removed.length}`],
    ['other files that differ', report.otherFiles.length],
    ['renamed bindings', report.renames.length],
    ['paths of files that moved', report.movedPaths.length],
    ['retitled tests', report.retitled.length],
    ['renamed properties', report.properties.length],
    ['changed literals', report.literals.length],
    ['changed structure', report.structure.length],
    ['names that mean something else', report.faults.length],
    ['names of declarations without a counterpart', report.unpaired],
    ['assertions unchanged, changed', `${report.assertions.unchanged}, ${report.assertions.changed.length}`],
    ['assertions added, removed', `${report.assertions.added.length}, ${report.assertions.removed.length}`],
  ]
  console.log()
  for (const [name, value] of rows) console.log(`${name.padEnd(46)}${value}`)
}
