/**
 * @module The rules of `replies.toml`: what the replies of mail servers mean, and what follows. Compiles each pattern
 * once, at start. The file explains its fields and its order.
 */
import { hours, minutes } from '#platform/units.ts'
import type { BounceCategory } from '../model/bounce-category.ts'
import table from './replies.toml'

/** The rejected command; `session`: greeting, EHLO or STARTTLS. */
export type Phase = 'mail' | 'rcpt' | 'data' | 'body' | 'session'

/** What follows from a reply, beside the category; `replies.toml` explains each. */
export type ReplyAction = 'none' | 'suppress' | 'retry' | 'slow' | 'suspend_provider'

/** What a rule does when it decides. */
export interface ReplyRule {
  readonly id: string
  /** Whose words these are: a name of providers.toml. */
  readonly provider?: string
  readonly category: BounceCategory
  /** Undefined: `retry` for what is deferred, `none` for what bounces. */
  readonly action?: ReplyAction
  readonly suspendMs?: number
  readonly alert: boolean
  /** Whether it names enhanced status codes. */
  readonly hasCodes: boolean
  /** Matches the words; never matches when the rule has no patterns. */
  readonly pattern: RegExp
  readonly matches: (facts: ReplyFacts) => boolean
}

/** What a rule is compared with. */
export interface ReplyFacts {
  readonly code: number
  /** Enhanced status code, such as `5.1.1`. */
  readonly status: string | undefined
  /** The result of `normaliseReply`. */
  readonly words: string
  readonly phase: Phase
  /** Name of the provider in providers.toml; undefined when the server belongs to none, and in reports. */
  readonly provider: string | undefined
}

interface Effect {
  readonly action?: ReplyAction
  readonly suspend?: string
  readonly alert?: boolean
}

interface RuleEntry extends Effect {
  readonly id: string
  readonly category: BounceCategory
  readonly provider?: string
  readonly source: string
  readonly patterns?: readonly string[]
  readonly codes?: readonly string[]
  readonly replies?: readonly string[]
  readonly phases?: readonly Phase[]
}

interface CodeEntry extends Effect {
  readonly category: BounceCategory
  readonly decisive?: boolean
}

/** The groups of rules with words, in the order in which they decide. */
export const GROUPS = [
  'exact',
  'living',
  'provider',
  'sender',
  'message',
  'policy',
  'locked',
  'disabled',
  'unknown',
  'unavailable',
  'vague',
] as const
type Group = (typeof GROUPS)[number] | 'fallback'

/** The file as parsed. */
export type RuleTable = Readonly<Record<Group, readonly RuleEntry[]>> & {
  readonly defaults: Readonly<Partial<Record<BounceCategory, Effect>>>
  readonly sources: Readonly<Record<string, string>>
  readonly codes: Readonly<Record<string, CodeEntry>>
}

const FILE = table as RuleTable & { readonly providers: readonly string[] }

function withProvider(entry: RuleEntry): RuleEntry {
  const provider = entry.provider ?? FILE.providers.find((name) => entry.id.startsWith(`${name}-`))
  return provider === undefined ? entry : { ...entry, provider }
}

export const RULE_TABLE: RuleTable = {
  ...FILE,
  ...Object.fromEntries(GROUPS.map((group) => [group, FILE[group].map(withProvider)])),
}

export const MAILBOX_NOUNS =
  '(?:user|recipient|addressee|mail ?box|account|(?<!ip |client |remote |host )address|alias|local[- ]?part|person|employee)'

/**
 * One expression of many alternatives, each at the start of a word. A leading star allows a match anywhere, for scripts
 * without spaces.
 */
export function buildMatcher(patterns: readonly string[]): RegExp {
  const isAnywhere = (pattern: string) => pattern.startsWith('*')
  const words = patterns.filter((pattern) => !isAnywhere(pattern))
  const anywhere = patterns.filter(isAnywhere).map((pattern) => pattern.slice(1))
  return new RegExp(
    [...(words.length > 0 ? [`(?<![\\p{L}\\d])(?:${words.join('|')})`] : []), ...anywhere].join('|'),
    'iu',
  )
}

const NOTHING = /(?!)/

/** `15m` or `4h` in ms. */
function parseDuration(text: string): number {
  const amount = Number(text.slice(0, -1))
  return text.endsWith('h') ? hours(amount) : minutes(amount)
}

/** `552`, `500-504`, and the last part of `5.7.606-649`: a number or a range. */
function parseRange(text: string): (value: number) => boolean {
  const [from = Number.NaN, to = from] = text.split('-').map(Number)
  return (value) => value >= from && value <= to
}

/** `4.7.650`, `5.7.606-649`, or `X.7.28` for any class. */
function parseCodes(text: string): (status: string | undefined) => boolean {
  const [level, subject, details = ''] = text.split('.')
  const isInRange = parseRange(details)
  return (status) => {
    const [itsLevel, itsSubject, detail] = (status ?? '').split('.')
    return (level === 'X' || level === itsLevel) && subject === itsSubject && isInRange(Number(detail))
  }
}

function toEffect(entry: Effect, category: BounceCategory): Pick<ReplyRule, 'action' | 'suspendMs' | 'alert'> {
  const { action, suspend, alert } = { ...RULE_TABLE.defaults[category], ...entry }
  return {
    alert: alert === true,
    ...(action && { action }),
    ...(suspend !== undefined && { suspendMs: parseDuration(suspend) }),
  }
}

function toRule(entry: RuleEntry): ReplyRule {
  const { id, category, provider, patterns, codes, replies, phases } = entry
  const pattern = patterns
    ? buildMatcher(patterns.map((text) => text.replaceAll('{mailbox}', () => MAILBOX_NOUNS)))
    : NOTHING
  const areCodes = codes?.map(parseCodes)
  const areReplies = replies?.map(parseRange)
  return {
    id,
    category,
    ...(provider !== undefined && { provider }),
    ...toEffect(entry, category),
    hasCodes: codes !== undefined,
    pattern,
    matches: (facts) =>
      (!areCodes || areCodes.some((isCode) => isCode(facts.status))) &&
      (!areReplies || areReplies.some((isReply) => isReply(facts.code))) &&
      (!phases || phases.includes(facts.phase)) &&
      (patterns ? pattern.test(facts.words) : provider === undefined || provider === facts.provider),
  }
}

const buildRules = (group: Group): readonly ReplyRule[] => RULE_TABLE[group].map(toRule)

export const EXACT_RULES = buildRules('exact')
export const LIVING_RULES = buildRules('living')
export const LOCKED_RULES = buildRules('locked')
export const DISABLED_RULES = buildRules('disabled')
export const UNKNOWN_RULES = buildRules('unknown')
export const UNAVAILABLE_RULES = buildRules('unavailable')
const FALLBACK_RULES = buildRules('fallback')
/** All rules with words, except the exact ones, in order of precedence. */
export const WORD_RULES: readonly ReplyRule[] = [
  ...LIVING_RULES,
  ...(['provider', 'sender', 'message', 'policy'] as const).flatMap(buildRules),
  ...LOCKED_RULES,
  ...DISABLED_RULES,
  ...UNKNOWN_RULES,
  ...UNAVAILABLE_RULES,
  ...buildRules('vague'),
]

/** What an enhanced status code means; `isDecisive`: even when the words suggest another cause. */
export interface CodeRule extends ReplyRule {
  readonly isDecisive: boolean
}

/** By subject and detail, such as `1.1`. */
export const RULES_BY_CODE: ReadonlyMap<string, CodeRule> = new Map(
  Object.entries(RULE_TABLE.codes).map(([code, entry]) => [
    code,
    {
      id: `X.${code}`,
      category: entry.category,
      ...toEffect(entry, entry.category),
      hasCodes: true,
      pattern: NOTHING,
      matches: ({ status }) => status?.slice(2) === code,
      isDecisive: entry.decisive === true,
    },
  ]),
)

/** The rule of a group that code names. Throws at start when the file has none. */
function getRule(rules: readonly ReplyRule[], id: string): ReplyRule {
  const rule = rules.find((each) => each.id === id)
  if (!rule) throw new Error(`replies.toml has no rule ${id}`)
  return rule
}

export const GREYLISTING = getRule(LIVING_RULES, 'greylisting')
export const CISCO_DIRECTORY = getRule(EXACT_RULES, 'cisco-directory')
export const UNKNOWN_DOMAIN = getRule(UNKNOWN_RULES, 'unknown-domain')
export const SENDER_REJECTED = getRule(FALLBACK_RULES, 'sender-rejected')
export const MAILBOX_BUSY = getRule(FALLBACK_RULES, 'mailbox-busy')
export const UNRECOGNISED = getRule(FALLBACK_RULES, 'unrecognised')
/** Without words, by code. */
export const CODE_FALLBACKS = FALLBACK_RULES.filter((rule) => ![SENDER_REJECTED, MAILBOX_BUSY].includes(rule))

/** The id of a rule in a reply of a provider: words of one provider in a reply of another are not named for the former. */
export const nameRule = ({ id, provider: owner }: ReplyRule, provider: string | undefined): string =>
  provider === undefined || owner === undefined || owner === provider
    ? id
    : id.slice((id.startsWith(`${owner}-`) ? owner.length : id.indexOf('-')) + 1)

const ALL_RULES = [...EXACT_RULES, ...WORD_RULES, ...FALLBACK_RULES, ...RULES_BY_CODE.values()]
/** By its id, and by the one that `nameRule` returns for other providers. */
const RULES_BY_ID: ReadonlyMap<string, ReplyRule> = new Map([
  ...ALL_RULES.map((rule) => [nameRule(rule, ''), rule] as const),
  ...ALL_RULES.map((rule) => [rule.id, rule] as const),
])

/** The category of a rule, by its id; that of a failed connection for rules without a reply. */
export const categoryOfRule = (id: string): BounceCategory => RULES_BY_ID.get(id)?.category ?? 'connection_failure'

/** Whether the operator should know of a reply, by the id of its rule. */
export const isAlertRule = (id: string): boolean => RULES_BY_ID.get(id)?.alert ?? false
