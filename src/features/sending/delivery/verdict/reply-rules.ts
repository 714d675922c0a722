/**
 * @module The rules of `replies.toml`: what the replies of mail servers mean, and what follows. Compiles each pattern
 * once, at start; the file explains its fields and its order. Also interprets the words of a reply: what they say about
 * the mailbox, and whether they mean something else: the sender, a policy, a rate limit, a full mailbox. Pure; examines
 * a limited part of a reply, whose length the remote server controls.
 */
import { hours, minutes } from '#platform/units.ts'
import type { BounceCategory } from '../protocol.ts'
import table from './replies.toml'

/** The rejected command; `session`: greeting, EHLO or STARTTLS. */
export type Phase = 'mail' | 'rcpt' | 'data' | 'body' | 'session'

/** What follows from a reply, beside the category; `replies.toml` explains each. */
export type ReplyAction = 'none' | 'suppress' | 'retry' | 'slow' | 'suspend_provider'

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
}

interface WordRule extends ReplyRule {
  /** Whether the words match; never when the rule has no patterns. */
  readonly matchesWords: (words: string) => boolean
  readonly matches: (facts: ReplyFacts) => boolean
}

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

const MAILBOX_NOUNS =
  '(?:user|recipient|addressee|mail ?box|account|(?<!ip |client |remote |host )address|alias|local[- ]?part|person|employee)'

/** Matches alternatives at the start of a word; with a leading star anywhere, for scripts without spaces. */
function buildMatcher(patterns: readonly string[]): (words: string) => boolean {
  const isAnywhere = (pattern: string) => pattern.startsWith('*')
  const words = patterns.filter((pattern) => !isAnywhere(pattern))
  const anywhere = patterns.filter(isAnywhere).map((pattern) => pattern.slice(1))
  const pattern = new RegExp(
    [...(words.length > 0 ? [`(?<![\\p{L}\\d])(?:${words.join('|')})`] : []), ...anywhere].join('|'),
    'iu',
  )
  return (text) => pattern.test(text)
}

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

function toRule(entry: RuleEntry): WordRule {
  const { id, category, provider, patterns, codes, replies, phases } = entry
  const matchesWords = patterns
    ? buildMatcher(patterns.map((text) => text.replaceAll('{mailbox}', () => MAILBOX_NOUNS)))
    : () => false
  const areCodes = codes?.map(parseCodes)
  const areReplies = replies?.map(parseRange)
  return {
    id,
    category,
    ...(provider !== undefined && { provider }),
    ...toEffect(entry, category),
    hasCodes: codes !== undefined,
    matchesWords,
    matches: (facts) =>
      (!areCodes || areCodes.some((isCode) => isCode(facts.status))) &&
      (!areReplies || areReplies.some((isReply) => isReply(facts.code))) &&
      (!phases || phases.includes(facts.phase)) &&
      (patterns ? matchesWords(facts.words) : provider === undefined || provider === facts.provider),
  }
}

const RULES = Object.fromEntries(
  [...GROUPS, 'fallback' as const].map((group) => [group, RULE_TABLE[group].map(toRule)]),
) as unknown as Readonly<Record<Group, readonly WordRule[]>>
export const EXACT_RULES = RULES.exact
/** All rules with words, except the exact ones, in order of precedence. */
export const WORD_RULES = GROUPS.filter((group) => group !== 'exact').flatMap((group) => RULES[group])

/**
 * What an enhanced status code means, by subject and detail, such as `1.1`; `isDecisive`: even when the words suggest
 * another cause.
 */
export const RULES_BY_CODE: ReadonlyMap<string, ReplyRule & { readonly isDecisive: boolean }> = new Map(
  Object.entries(RULE_TABLE.codes).map(([code, entry]) => [
    code,
    {
      id: `X.${code}`,
      category: entry.category,
      ...toEffect(entry, entry.category),
      hasCodes: true,
      isDecisive: entry.decisive === true,
    },
  ]),
)

/** The rule of a group that code names. Throws at start when the file has none. */
function getRule(rules: readonly WordRule[], id: string): WordRule {
  const rule = rules.find((each) => each.id === id)
  if (!rule) throw new Error(`replies.toml has no rule ${id}`)
  return rule
}

export const isGreylisting = getRule(RULES.living, 'greylisting').matchesWords
const CISCO_DIRECTORY = getRule(EXACT_RULES, 'cisco-directory')
export const isUnknownDomain = getRule(RULES.unknown, 'unknown-domain').matchesWords
export const SENDER_REJECTED = getRule(RULES.fallback, 'sender-rejected')
export const MAILBOX_BUSY = getRule(RULES.fallback, 'mailbox-busy')
export const UNRECOGNISED = getRule(RULES.fallback, 'unrecognised')
/** Without words, by code. */
export const CODE_FALLBACKS = RULES.fallback.filter((rule) => ![SENDER_REJECTED, MAILBOX_BUSY].includes(rule))

/** The id of a rule in a reply of a provider: words of one provider in a reply of another are not named for the former. */
export const nameRule = ({ id, provider: owner }: ReplyRule, provider: string | undefined): string =>
  provider === undefined || owner === undefined || owner === provider
    ? id
    : id.slice((id.startsWith(`${owner}-`) ? owner.length : id.indexOf('-')) + 1)

const ALL_RULES = [...EXACT_RULES, ...WORD_RULES, ...RULES.fallback, ...RULES_BY_CODE.values()]
/** By its id, and by the one that `nameRule` returns for other providers. */
const RULES_BY_ID: ReadonlyMap<string, ReplyRule> = new Map([
  ...ALL_RULES.map((rule) => [nameRule(rule, ''), rule] as const),
  ...ALL_RULES.map((rule) => [rule.id, rule] as const),
])

/** The category of a rule, by its id; that of a failed connection for rules without a reply. */
export const categoryOfRule = (id: string): BounceCategory => RULES_BY_ID.get(id)?.category ?? 'connection_failure'

/** Whether the operator should know of a reply, by the id of its rule. */
export const isAlertRule = (id: string): boolean => RULES_BY_ID.get(id)?.alert ?? false

/** Maximum length of a reply that is stored and examined: the expressions take up to quadratic time. */
export const MAX_REPLY_LENGTH = 2000

/** The note that a relaying MTA adds to a forwarded reply: Postfix names the command that was answered. */
const RELAY_NOTE = /\(in reply to [^()]{0,80}\)/gi
/** In a URL, the host and fragment explain a reply (a block list, a code); the path belongs to a help page. */
const URL_PATTERN = /https?:\/\/([^\s/:<>"'?#]{1,253})[^\s<>"'#]*(#[^\s<>"']*)?/gi
/** The link in a rejection by a group of Google, in any language. */
const GOOGLE_GROUP_LINK = /support\.google\.com\/a\/[^\s/]{1,253}\/bin\/topic\.py/gi
/** An address in a reply. Words within an address do not name the cause (`<spam@example.com>: User unknown`). */
const ADDRESS =
  /<[^<>]{0,320}>|(?<![^\s<>()[\]"':;,=])[^\s<>()[\]"':;,=]{1,254}@(?:[^\s<>()[\]"':;,=.]|\.(?!\.)){1,254}/g

/** The start of a reply without addresses, URL paths and relay notes, with single spaces. */
export const normaliseReply = (text: string): string =>
  text
    .slice(0, MAX_REPLY_LENGTH)
    .replace(/[\u2018\u2019]/g, "'")
    .replace(/[\u201c\u201d\u2013\u2014]/g, ' ')
    .replace(RELAY_NOTE, ' ')
    .replace(GOOGLE_GROUP_LINK, 'google-group-help')
    .replace(URL_PATTERN, '$1 $2')
    .replace(ADDRESS, ' ')
    .replace(/\s+/g, ' ')

/** About the sender's address: servers that verify it reject it in words similar to those for a recipient. */
export const namesSender = buildMatcher([
  'senders?\\b|from[- ]address|return.?path|mail from|envelope|call(?:back|out) to|verification failed for|in your domain',
  'reply-to\\b|reply (?:to )?address|originat(?:or|ing)|headers?\\b|message-?id',
  '(?:absender|versender|exp\\S{1,2}diteur|emetteur|\\S{1,2}metteur|remitente|mittente|remetente|nadawc|afzender|odes\\S{1,2}latel|отправител)',
  '*(?:发件人|寄件者|送信者|差出人)',
])

/** Of servers that could not check the mailbox, or do not know its domain: either may change. */
const isUnchecked = buildMatcher([
  'temporar|greylist|timed?[- ]?out|in progress|maintenance|connection (?:refused|reset|failed|lost)|(?<!not )retry|deferred',
  '(?:ldap|database|directory|backend|server|system|internal|transport|storage)(?: \\S+)? (?:error|failed|failure|unavailable|down|problem)',
  'look-?ups?(?: \\S+)? (?:error|failed|failure)|verif\\S+ (?:in progress|pending)',
  // A user's own program, behind a server that knows the mailbox.
  'x-unix|procmail|maildrop|command (?:died|output)',
  `${MAILBOX_NOUNS}(?:'s)? domain|domain (?:\\S+ )?(?:is |was )?(?:not|unknown|does not|doesn't)|unknown domain|not a local domain`,
  '(?:vor\\S{1,2}bergehend|voruebergehend|zeitweise|tijdelijk|tymczasow|do\\S{1,2}asn\\S{1,2}|временно|provisoire)',
  '*(?:一時|暂时|暫時)',
])

/** The code of a temporary cause, quoted from a server further downstream. */
const TEMPORARY_CODE = /(?<![\d.])4\.\d{1,3}\.\d{1,3}(?![\d.]*\d)/

/** Words about one recipient, or about the address or the domain of one sender. */
const namesOne = buildMatcher([
  'recipient|addressee|mail ?box|(?:user|account|customer)\\b(?! complaint)|directory|local[- ]part|person\\b|group\\b',
  "domain|senders?\\b(?!(?:'s)? (?:ip|host|server|mta))|(?:from|e-?mail|reply-to|return) (?:address|path)|mail ?from(?! (?:ip|dynamic|your|host))|envelope",
  // One message.
  'attachment|contains?\\b|subject\\b|links?\\b|script\\b|file\\b|macro',
  '(?:destinataire|empf\\S{1,2}nger|postfach|destinatari|buz\\S{1,2}n|expediteur|emetteur|absender|remitente|mittente|remetente|dom\\S{1,2}ni)',
])

/** Words about our host: its address, its name, its connections, and lists of these. */
export const namesOurHost = buildMatcher([
  'ips?\\b|ipv[46]\\b|client|hosts?\\b|hostname|network|netblock|mta\\b|connect|rdns\\b|ptr\\b|reverse|rbls?\\b|dnsbl|dynamic',
  '\\[?\\d{1,3}(?:\\.\\d{1,3}){3}\\b|\\[?(?:ipv6:)?[\\da-f]{1,4}:[\\da-f:]{2,}|(?:your|sending|remote|mail) (?:\\S+ )?(?:server|system)|your access',
  'spamhaus|spamcop|uceprotect|barracuda|sorbs\\b|senderscore|abuseat|trend micro|cloudmark|ipcheck',
])

/** Words about something other than the mailbox, or about a temporary state of it. */
export const hasOtherCause = buildMatcher([
  'your (?:\\S+ )?(?:account|ip|server|host|domain|network|helo|organi[sz]ation|country|address)\\b|from you\\b',
  'helo\\b|ehlo\\b|hostname|ptr\\b|reverse|dns\\b|resource record|(?:ip|client|remote) address|address:? \\d',
  'rates?\\b|ratio\\b|count\\b|limit|too (?:many|much|quick|fast)|throttl|quota|full\\b|exceed|maxim|storage|size\\b',
  'try (?:again|another|the primary|our)|later\\b|for now|until\\b|holiday|vacation|hours?\\b|locked|pending|awaiting|migrat|being moved|re-?send\\b',
  'spam|unsolicited|junk|virus|malware|phish|content|attachment|newsletter|bulk|external|mime\\b|message (?:was )?rejected|contains\\b|more room',
  'block(?:ed(?! (?:\\S+ ){1,3}inactiv)|list| list)|black ?list|white ?list|allow ?list|denylist|dnsbl|rbl\\b|reputation|(?<!not )listed\\b|trusted',
  'polic(?:y|ies)|restrict|prohibit|denied|refused by|permission|permitted|not allowed|authori[sz]|authentic|dkim|dmarc|spf\\b',
  'relay(?!=| recipient)|you (?:may|are|have|need|must|can)|will not accept|for sending|smtp account|closed connection|(?:rly|con|rtr|dyn|hvu):|groups?\\b',
  'smtputf8|tls\\b|ssl\\b|encrypt|unencrypt|licen[cs]e|token\\b|syntax|confirm\\b|challenge|protected|subscription|password|credential|certificate',
  // These name an attribute of a mailbox, not the mailbox itself.
  "(?:user|recipient|mailbox|account|address)(?:'s)? (?:agent|session|token|input|store|database|server|error|name (?:or|in)\\b)",
  '(?:user|recipient|mailbox|account|address) (?:verification|validation|creation|profile)|(?<!name & )address (?:list|book)',
  'delivery (?:is )?(?:disabled|suspended)|suspended delivery|recipient (?:refuse|block|reject)s|by recipients',
])

/** English words that replies about an address consist of. */
const ENGLISH_WORDS =
  /(?<![\p{L}\d])(?:recipients?|addressee|address|users?|mail ?box|account|alias|rejected|refused|invalid|unknown|unable|not|no|does|found|null|mx|bad|destination|nobody|no one|such|here|there|this|that|exists?|cannot|undeliverable|local|gone)(?![\p{L}\d])/iu
/** The prefix that Postfix writes before the operator's text, which may be in any language. */
const POSTFIX_PREFIX = /(?:recipient )?address rejected:/gi
const HOST_NAME = /(?<![^\s([])[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,10}(?![^\s)\].,:;])/gi
const TWO_LETTERS = /\p{L}{2}/u
const NON_ASCII = /[^\x00-\x7f]/

/** The reply of Exchange Online for an address that is not in its directory. */
const MICROSOFT_DIRECTORY = /\brecipient address rejected: access denied\b.{0,500}\bAS\(201806281\)/i

// The functions below read the result of `normaliseReply`.

export const isMicrosoftDirectoryReply = (words: string): boolean => MICROSOFT_DIRECTORY.test(words)

const matchesAny = (rules: readonly WordRule[], words: string): boolean =>
  rules.some(({ matchesWords }) => matchesWords(words))

/** The rule of a reply about a live address, such as a full mailbox or greylisting, with any code. */
export const findLivingCause = (words: string): ReplyRule | undefined =>
  RULES.living.find(({ matchesWords }) => matchesWords(words))

export const isUnknownMailbox = (words: string): boolean =>
  matchesAny(RULES.unknown, words) || matchesAny(RULES.unavailable, words) || CISCO_DIRECTORY.matchesWords(words)

/** Whether the words can only mean an unknown mailbox. */
export const isClearlyUnknown = (words: string): boolean => matchesAny(RULES.unknown, words)

export const isDisabledMailbox = (words: string): boolean => matchesAny(RULES.disabled, words)

/** Whether the mailbox is locked, archived or moved: it accepts no mail now, but may later. */
export const isLockedMailbox = (words: string): boolean => matchesAny(RULES.locked, words)

/** Whether the server may find the mailbox later, or does not mean a mailbox at all. */
export const isInconclusive = (words: string): boolean => isUnchecked(words) || TEMPORARY_CODE.test(words)

/** Whether a reply is about one recipient or one sender, so that it says nothing about our host. */
export const concernsOne = (words: string): boolean => namesOne(words.replace(HOST_NAME, ' '))

/** Whether a reply has words in an unknown language, so that its code is not trusted. */
export function isUnreadable(words: string): boolean {
  const rest = words.replace(POSTFIX_PREFIX, ' ').replace(HOST_NAME, ' ')
  return NON_ASCII.test(rest) || (TWO_LETTERS.test(rest) && !ENGLISH_WORDS.test(rest))
}
