/**
 * @module What a contact file says about who may get mail: the columns that say so, and the meaning of their cells, in
 * the words of other services' exports. What may say so and is not known is unclear, never a guess. Pure.
 */
import { toStatusOfReason } from '#features/audience/suppressions/columns.ts'
import { CONTACT_STATUSES, type ContactStatus } from '#features/setup/contact-store/status.ts'

/** In all but `status`, a cell is a yes or no, or a time, which is a yes; a cell with a word for a status means that. */
export const CONSENT_KINDS = ['status', 'subscribed', 'confirmed', 'unsubscribed', 'bounced', 'complained'] as const
export type ConsentKind = (typeof CONSENT_KINDS)[number]

/** What yes and no mean in a column. */
const YES_AND_NO: Readonly<Record<Exclude<ConsentKind, 'status'>, readonly [ContactStatus, ContactStatus]>> = {
  subscribed: ['active', 'unsubscribed'],
  confirmed: ['active', 'pending'],
  unsubscribed: ['unsubscribed', 'active'],
  bounced: ['bounced', 'active'],
  complained: ['complained', 'active'],
}

const toMap = <Value extends string>(table: Readonly<Record<Value, string>>): ReadonlyMap<string, Value> =>
  new Map(
    (Object.entries(table) as [Value, string][]).flatMap(([value, words]) => words.split(/\s+/).map((w) => [w, value])),
  )

/** Names of columns, without FILLERS and TIMES: `Unsubscribed from all email` is `unsubscribed`. */
const NAMES = toMap<ConsentKind | 'metadata'>({
  status: `status subscriptionstatus subscribestatus optinstatus optstatus consentstatus permissionstatus deliverystatus reason
    suppressionreason suppression suppressions unsubscribereason subscriptionstate subscriberstate consentstate`,
  subscribed: `subscribed subscribe subscribes subscription subscriptions optin optins optedin consent consents consented
    consentgiven gdprconsent permission permissions accepts accepted agreed allow allowed enabled active mailable
    emailable receive receives wants marketing emailmarketing marketingemail marketingemails newsletter newsletters
    mailinglist abonniert angemeldet einwilligung inscrit abonne consentement iscritto consenso suscrito inscrito
    consentimiento consentimento aangemeld toestemming zgoda zapisany`,
  confirmed: 'confirmed verified optinconfirmed doubleoptinconfirmed activated bestatigt confirme',
  unsubscribed: `unsubscribed unsubscribe unsubscribes unsub unsubbed unsubscribeall optout optouts optedout blocklisted
    blocklist blacklisted blacklist emailblacklisted blocked suppressed suppress disabled inactive excluded
    excludedcampaigns quarantined deleted archived banned removed donot donotsend donotallow donotbulk donotemail donotbulkemail
    donotcontact dnc noemail noemails nomail nonewsletter nomarketing emailoptout isunsubscribed optedoutofemail
    hasoptedoutofemail emaildisabled consentwithdrawn consentrevoked withdrawn revoked abgemeldet widerrufen gesperrt
    desinscrit desabonne disiscritto baja desuscrito descadastrado afgemeld uitgeschreven wypisany deactivated
    widerruf widersprochen abbestellt`,
  bounced:
    'bounced bounce bounces bouncedhard hardbounced hardbounce hardbounces cleaned cleantime invalid undeliverable unreachable',
  complained:
    'complained complaint complaints spam spamcomplaint spamcomplaints spamreport spamreports markedasspam abuse',
  metadata: 'activesubscription doubleoptin softbounce softbounces softbounced bouncedsoft spamscore',
})

/** A name with one of these may be about consent. */
const LOOKS_LIKE_CONSENT =
  /unsub|subscribe(?!r)|opt(?:ed|s)?(?:in|out)|consent|permission|bounce|complain|spam|bl(?:ack|ock)list|blocked|quarantin|suppress|donot|gdpr|dsgvo|rgpd|lgpd|einwillig|abgemeldet|abmeld|angemeldet|abonn|iscri[tz]|uitgeschreven|afgemeld|descadastr|toestemming|zgoda|inscri|suscri|widerruf|widersp|abbestell|sperr|revo[ck]|withdr|avregistr|avmeld/

const toSet = (words: string): ReadonlySet<string> => new Set(words.split(/\s+/))
const FILLERS = toSet(
  `is has have email emails e mail mails mailing marketing newsletter newsletters to from for by all any of the a our
  contact contacts subscriber subscribers user member customer global address account profile list campaign
  this la eu`,
)
const TIMES = toSet('at on date time timestamp datetime when since utc')
/** A column about another channel, or about how somebody agreed, says nothing about mail to him. */
const CHANNELS = toSet('sms mms phone phones mobile whatsapp push call calls fax telegram postal print track tracking')
/** A no in a column with one of these may be one to mail: `I agree to get news`. */
const MAY_BE_REFUSED =
  /mail|news|market|werbe|werbung|promo|offer|contact|deliverab|notif|update|agree|accept|accett|acept|aceit|akzept|receiv|recev|receb|recib|ricev|erhalt/
/** Unless one of these says that it is about what happened, or a place. */
const FACTS = toSet('received sent opened clicked delivered opens clicks count number total last owner city state')
const CIRCUMSTANCES = toSet('ip source url page form method id country version text language referrer')

const WORDS = toMap<ContactStatus>({
  active: `active enabled subscribed subscriber confirmed optin optedin singleoptin doubleoptin consented granted accepted
    allowed ok valid deliverable express implied marketingcontact softbounce softbounced aktiv angemeldet abonniert inscrit
    abonne actif activo suscrito iscritto attivo actief`,
  pending: `pending unconfirmed notconfirmed unactivated unverified notverified waiting awaitingconfirmation
    pendingconfirmation confirmationpending validating invited unbestatigt`,
  unsubscribed: `unsubscribed unsubscribe unsub notsubscribed nonsubscribed neversubscribed optout optedout notoptedin
    disabled blocklisted blocklist blacklisted blacklist blocked suppressed usersuppressed cancelled canceled removed
    deleted archived inactive left denied declined rejected refused withdrawn revoked noconsent notconsented nopermission
    nopermissions nopermissionsset nonmarketingcontact transactional transactionalonly trash excluded banned
    donotmail donotemail donotcontact manualsuppression abgemeldet inaktiv gesperrt desinscrit desabonne inactif inactivo baja disiscritto
    inattivo afgemeld uitgeschreven`,
  bounced: `bounced bounce hardbounced hardbounce cleaned invalid invalidemail undeliverable unreachable nonexistent dead`,
  complained: `complained complaint complaints spam junk abuse spamcomplaint spamreport spamreported markedasspam
    reportedspam spammer`,
})
const YES = toSet('yes y true t 1 on x ja j oui o si s sim tak wahr vrai vero verdadero verdadeiro checked ✓ ✔')
const NO = toSet('no n false f 0 off nein non nee nie nao falsch faux falso unchecked never')
const NOTHING = toSet('null none nil na nan undefined')

/** The rank of a status is its strictness. */
export const isStricter = (status: ContactStatus, than: ContactStatus | undefined): boolean =>
  than === undefined || CONTACT_STATUSES.indexOf(status) > CONTACT_STATUSES.indexOf(than)

export const withoutMarks = (text: string): string => text.normalize('NFD').replace(/\p{M}/gu, '')
const toWord = (text: string): string =>
  withoutMarks(text)
    .toLowerCase()
    .replace(/[^\p{L}\d✓✔]/gu, '')

/**
 * What a column of this name says; `unclear`: it may be about consent; `unclear no`: a no in it may be; `metadata`: it
 * is about consent to something else, or about how it was given; undefined: it is not about consent.
 */
export function findConsentKind(name: string): ConsentKind | 'unclear' | 'unclear no' | 'metadata' | undefined {
  const parts = (withoutMarks(name).match(/\p{Lu}?[\p{Ll}\p{Lo}\d]+|[\p{Lu}\d]+/gu) ?? []).map((part) =>
    part.toLowerCase(),
  )
  if (parts.some((part) => CHANNELS.has(part))) return 'metadata'
  // Not of time: `On mailing list`.
  const isTimeWord = (part: string, index: number): boolean => TIMES.has(part) && !(part === 'on' && index === 0)
  const withoutTimes = parts.filter((part, index) => !isTimeWord(part, index))
  const core = withoutTimes.filter((part) => !FILLERS.has(part))
  const about = core.filter((part) => !CIRCUMSTANCES.has(part))
  const known = [parts, withoutTimes, core].map((list) => NAMES.get(list.join(''))).find((kind) => kind !== undefined)
  const kind = known ?? NAMES.get(about.join(''))
  // The time of a consent, like its circumstances, proves nothing about the present.
  const isDetail = withoutTimes.length < parts.length || (known === undefined && about.length < core.length)
  if (isDetail && (kind === 'status' || kind === 'subscribed' || kind === 'confirmed')) return 'metadata'
  if (known !== undefined || LOOKS_LIKE_CONSENT.test(parts.join(''))) return known ?? 'unclear'
  const isFact = parts.some((part) => FACTS.has(part) || CIRCUMSTANCES.has(part))
  return MAY_BE_REFUSED.test(parts.join('')) && !isFact ? 'unclear no' : undefined
}

/** A cell is undefined when it says nothing. */
export type CellMeaning = ContactStatus | 'unclear' | undefined

/**
 * The meaning of a cell.
 * @param isAnswered the account has said what the column means, so any other text in it is a yes to a reason to stop
 */
export function readConsent(kind: ConsentKind, cell: string, isAnswered: boolean): CellMeaning {
  const word = toWord(cell)
  if (word === '' || NOTHING.has(word)) return undefined
  const status = WORDS.get(word) ?? toStatusOfReason(cell)
  if (status !== undefined) return status
  if (kind === 'status') return 'unclear'
  const [yes, no] = YES_AND_NO[kind]
  if (NO.has(word) || /^0+$/.test(word)) return no
  return YES.has(word) || isTime(cell) || (isAnswered && yes !== 'active') ? yes : 'unclear'
}

/** A year, an epoch, or a date with a short year. */
const isTime = (cell: string): boolean => /\d{4}/.test(cell) || /\d\D\d{1,2}\D\d\d/.test(cell)

export const isNo = (cell: string): boolean => NO.has(toWord(cell))

/** Excludes most cells at little cost. */
const MAY_BE_OPT_OUT = /subscri|opt|listed|complained|bounced|cancel/i

/** Whether a cell of any column is a word for an opt-out that is used for nothing else. */
export const isOptOutWord = (cell: string): boolean =>
  cell.length < 32 &&
  MAY_BE_OPT_OUT.test(cell) &&
  /^(?:unsubscribed?|opt(?:ed)?out|b(?:lo|la)cklisted|complained|(?:hard)?bounced|cancell?ed)$/.test(toWord(cell))
