/**
 * @module Authenticates a received message with mailauth, strictly by the RFCs: SPF (RFC 7208), DKIM (RFC 6376, 8301,
 * 8463), DMARC (RFC 9989), ARC (RFC 8617) and forward-confirmed reverse DNS (RFC 8601 §3). Limits time, DNS queries and
 * signatures. Never accepts or rejects the message.
 */
import type { ARCData } from 'mailauth'
import { arc } from 'mailauth/lib/arc'
import { evaluateDmarc } from 'mailauth/lib/dmarc'
import { spf } from 'mailauth/lib/spf'
import type { Clock } from '#platform/time/clock.ts'
import { toComparableDomain } from '../address/domain.ts'
import { createMailauthResolver, type MailauthResolver } from '../dns/mailauth-resolver.ts'
import type { Resolver } from '../dns/resolver.ts'
import { confirmReverseName } from '../dns/reverse-name.ts'
import { parseIpv6Groups, readIpv4At } from '../dns/special-addresses.ts'
import { createSource, type MessageSource } from '../mime/source.ts'
import { prepareMessage } from './prepare.ts'
import type { AuthenticationResult, Verdict } from './result.ts'
import { SignatureVerifier } from './verifier.ts'

/** Facts of the SMTP session, and our host name. */
export interface SessionFacts {
  readonly clientIp: string
  readonly helo: string
  /** `''`: the null reverse-path. */
  readonly mailFrom: string
  /** Our host name, the authserv-id. */
  readonly hostname: string
}

type Details = AuthenticationResult['details']
type DmarcEvaluation = Awaited<ReturnType<typeof evaluateDmarc>>

/** Time limit for all DNS queries of a message together. */
const TIMEOUT_MS = 10_000
/**
 * Maximum number of DNS queries of each check; with at most 11 for the reverse name, 100 per message in total. DMARC's
 * tree walks share names, and DKIM and ARC share keys; SPF alone could need 111.
 */
const MAX_QUERIES = { spf: 40, keys: 25, dmarc: 24 } as const
/** Minimum length of an RSA key, RFC 8301 §3.2. */
const MIN_RSA_BITS = 1024
const MAX_COMMENT_LENGTH = 300
const MAX_NAME_LENGTH = 255

/**
 * Returns the results of all checks for a message as received, without fields that we added. A check that has not ended
 * after 10 s, or needs more DNS queries than its share, results in temperror. It results in permerror where SPF
 * exceeds its own number of lookups. Never rejects.
 */
export async function authenticate(
  message: Uint8Array | MessageSource,
  facts: SessionFacts,
  resolver: Resolver,
  clock: Clock,
): Promise<AuthenticationResult> {
  const source = message instanceof Uint8Array ? createSource(message) : message
  const deadline = Promise.withResolvers<void>()
  const timer = clock.after(TIMEOUT_MS, deadline.resolve)
  try {
    const limitDns = (maxQueries: number) => createLimitedDns(resolver, maxQueries, deadline.promise)
    // Created before the first await, so that it notices when the deadline passes.
    const dmarcDns = limitDns(MAX_QUERIES.dmarc)
    const clientIp = normaliseIp(facts.clientIp)
    const [iprev, sender, signed] = await Promise.all([
      checkReverseDns(resolver, clientIp, deadline.promise),
      checkSpf(limitDns(MAX_QUERIES.spf), facts, clientIp),
      checkSignatures(limitDns(MAX_QUERIES.keys), source, clock),
    ])
    const { dmarc, isAligned } = await checkDmarc(dmarcDns, sender, signed)
    return toResult({ spf: sender.details, dkim: toDkimDetails(signed, isAligned), dmarc, arc: signed.arc, iprev })
  } finally {
    timer.cancel()
  }
}

function toResult(details: Details): AuthenticationResult {
  return {
    spf: details.spf.result,
    dkim: pickBest(details.dkim),
    dmarc: details.dmarc.result,
    arc: details.arc.result,
    iprev: details.iprev.result,
    details,
  }
}

// ---- Limits of DNS

/**
 * DNS for one check. A query beyond a limit fails like a DNS failure, so a check without an answer is a temperror. The
 * returned function rejects with an Error that has a `code`, as node:dns does; see `createMailauthResolver`.
 * @param maxQueries maximum number of queries; later queries reject immediately
 * @param expired resolves at the deadline; then every open and later query rejects with ETIMEOUT
 */
function createLimitedDns(resolver: Resolver, maxQueries: number, expired: Promise<void>): MailauthResolver {
  const lookUp = createMailauthResolver(resolver)
  let isExpired = false
  const expiry = expired.then((): never => {
    isExpired = true
    throw createTimeoutError()
  })
  // Every query handles this rejection; if there are no queries, it would be unhandled.
  expiry.catch(() => {})
  let remaining = maxQueries
  return async (name, type) => {
    if (isExpired) throw createTimeoutError()
    if (remaining <= 0) throw createTooManyError()
    remaining--
    return await Promise.race([expiry, lookUp(name, type)])
  }
}

const createTimeoutError = (): Error =>
  Object.assign(new Error('the time limit of all checks has passed'), { code: 'ETIMEOUT' })

/**
 * An error without a code, which mailauth treats as a DNS failure. In SPF, mailauth uses `spfResult` instead: the
 * result that RFC 7208 §4.6.4 prescribes for too many lookups.
 */
const createTooManyError = (): Error =>
  Object.assign(new Error('too many DNS queries'), {
    spfResult: { error: 'permerror', text: 'Too many DNS requests' },
  })

// ---- Forward-confirmed reverse DNS

/** `fail`: no name of the address leads back to it; `permerror`: it has no valid name. */
async function checkReverseDns(resolver: Resolver, ip: string, expired: Promise<void>): Promise<Details['iprev']> {
  const found = await Promise.race([confirmReverseName(resolver, ip), expired])
  if (!found || found.kind === 'unknown') return { result: 'temperror', name: null }
  const { kind, names } = found
  const [name = null] = names
  if (kind === 'confirmed') return { result: 'pass', name }
  return { result: name === null ? 'permerror' : 'fail', name: null }
}

// ---- SPF

interface SpfCheck {
  readonly details: Details['spf']
  /** The domain for which SPF passed; undefined: it did not pass. */
  readonly passedDomain: string | undefined
}

async function checkSpf(resolver: MailauthResolver, facts: SessionFacts, clientIp: string): Promise<SpfCheck> {
  const provided = { client_ip: facts.clientIp, helo: cleanText(facts.helo), identity: identityOf(facts) }
  try {
    const found = await spf({
      sender: facts.mailFrom,
      ip: clientIp,
      helo: facts.helo,
      mta: facts.hostname,
      resolver,
      strict: true,
    })
    const result = toVerdict(found.status.result)
    return {
      details: {
        result,
        domain: cleanText(found.domain === '-' ? '' : found.domain),
        ...provided,
        // mailauth begins the comment with our own host name; it is removed here.
        comment: cleanComment(found.status.comment, `${facts.hostname}: `),
      },
      passedDomain: result === 'pass' ? found.domain : undefined,
    }
  } catch (error) {
    return {
      details: { result: 'temperror', domain: '', ...provided, comment: cleanErrorMessage(error) },
      passedDomain: undefined,
    }
  }
}

const identityOf = ({ mailFrom }: SessionFacts): 'helo' | 'mailfrom' => (mailFrom === '' ? 'helo' : 'mailfrom')

// ---- DKIM and ARC

interface SignatureCheck {
  /** Undefined: nothing was verified; `failure` has the reason. */
  readonly verification: SignatureVerifier | undefined
  readonly failure: { readonly result: Verdict; readonly comment: string } | undefined
  readonly arc: Details['arc']
}

async function checkSignatures(
  resolver: MailauthResolver,
  source: MessageSource,
  clock: Clock,
): Promise<SignatureCheck> {
  try {
    const prepared = prepareMessage(source)
    if (prepared.kind === 'refused') return buildUnverified('permerror', prepared.reason)
    const verification = new SignatureVerifier({
      resolver,
      minBitLength: MIN_RSA_BITS,
      curTime: new Date(clock.now()),
      strict: true,
    })
    await verification.verify(prepared.pieces())
    return { verification, failure: undefined, arc: await checkArc(resolver, verification) }
  } catch (error) {
    return buildUnverified('temperror', cleanErrorMessage(error))
  }
}

const buildUnverified = (result: Verdict, comment: string): SignatureCheck => ({
  verification: undefined,
  failure: { result, comment },
  arc: { result, instances: 0, comment },
})

async function checkArc(resolver: MailauthResolver, { arc: data }: SignatureVerifier): Promise<Details['arc']> {
  if (data === undefined) return { result: 'none', instances: 0, comment: null }
  // The cast is needed because mailauth types the result of one function more narrowly than the parameter of the other.
  const found = await arc(data as unknown as ARCData, { resolver, minBitLength: MIN_RSA_BITS, strict: true })
  return {
    // A chain whose keys cannot be fetched fails, too: RFC 8617 knows no other result.
    result: toVerdict(found.status.result),
    instances: typeof found.i === 'number' ? found.i : 0,
    comment: cleanComment(found.status.comment),
  }
}

function toDkimDetails({ verification, failure }: SignatureCheck, isAligned: IsAligned): Details['dkim'] {
  if (failure !== undefined) return [{ ...failure, domain: '', selector: '', algorithm: null, aligned: false }]
  return (verification?.results ?? []).flatMap((signature) => {
    const { signingDomain, selector, algo, status } = signature
    // mailauth reports a missing signature as a result, which is left out.
    if (signingDomain === undefined && status.result === 'none') return []
    return {
      result: toVerdict(status.result),
      domain: cleanText(signingDomain),
      selector: cleanText(selector),
      algorithm: algo === undefined ? null : cleanText(algo),
      aligned: isAligned(signingDomain ?? '', status.result === 'pass'),
      comment: cleanComment(status.comment) ?? cleanComment(findPolicy(status)),
    }
  })
}

/** Returns the rule that a signature breaks: `weak-key`, `weak-algorithm`. */
function findPolicy(status: object): unknown {
  const policy = 'policy' in status ? status.policy : undefined
  return typeof policy === 'object' && policy !== null && 'dkim-rules' in policy ? policy['dkim-rules'] : undefined
}

const BEST_FIRST: readonly Verdict[] = ['pass', 'temperror', 'policy', 'fail', 'neutral', 'permerror', 'none']

/**
 * Returns the best result of the signatures that pass; if none passes, of the aligned ones; if none is aligned, of all.
 */
function pickBest(signatures: Details['dkim']): Verdict {
  const rank = ({ result, aligned }: Details['dkim'][number]): number =>
    (result === 'pass' ? 0 : aligned ? 10 : 20) + BEST_FIRST.indexOf(result)
  return [...signatures].sort((a, b) => rank(a) - rank(b))[0]?.result ?? 'none'
}

// ---- DMARC

/** Whether a signature's domain aligns with the author's domain under DMARC. */
type IsAligned = (signingDomain: string, passes: boolean) => boolean

interface DmarcCheck {
  readonly dmarc: Details['dmarc']
  readonly isAligned: IsAligned
}

/** RFC 9989 §5.3.1: DMARC applies only to a message with exactly one author domain. */
const NO_AUTHOR_REASONS: Readonly<Record<string, string>> = {
  'no-author-domain': 'the From field has no domain',
  'multiple-author-domains': 'the From field has addresses of several domains',
  'invalid-author-domain': 'the From field has an address without a valid domain',
  'multiple-from-fields': 'there are several From fields',
}

async function checkDmarc(resolver: MailauthResolver, sender: SpfCheck, signed: SignatureCheck): Promise<DmarcCheck> {
  const { verification, failure } = signed
  if (verification === undefined) return buildUnevaluated(failure?.result ?? 'permerror', failure?.comment ?? null)
  try {
    const evaluation = await evaluateDmarc({
      headerFrom: verification.headerFrom,
      fromFields: verification.fromFields,
      spfDomains: sender.passedDomain === undefined ? [] : [sender.passedDomain],
      dkimDomains: verification.results.flatMap(({ signingDomain, status }) =>
        status.result === 'pass' && signingDomain !== undefined
          ? { domain: signingDomain, underSized: status.underSized ?? 0 }
          : [],
      ),
      resolver,
      strict: true,
    })
    return toDmarcCheck(evaluation, sender, verification)
  } catch (error) {
    return buildUnevaluated('temperror', cleanErrorMessage(error))
  }
}

const buildUnevaluated = (result: Verdict, comment: string | null): DmarcCheck => ({
  dmarc: { result, domain: '', policy: null, comment },
  isAligned: () => false,
})

function toDmarcCheck(
  { response, dkimAligned, reason }: DmarcEvaluation,
  sender: SpfCheck,
  { results }: SignatureVerifier,
): DmarcCheck {
  if (response === false)
    return buildUnevaluated('permerror', NO_AUTHOR_REASONS[reason ?? ''] ?? 'there is no author domain')
  const author = toComparableDomain(response.status.header?.from ?? '')
  const organization = toComparableDomain(response.domain || author)
  // For a domain that did not pass, there is no tree walk: the domain counts as aligned if it is the author's
  // organizational domain or is below it.
  const wouldAlign = (domain: string, isStrict: boolean | undefined): boolean =>
    isStrict === true ? toComparableDomain(domain) === author : isSameOrBelow(toComparableDomain(domain), organization)
  const result = toVerdict(response.status.result)
  // mailauth considers only identifiers that passed. If the check of an aligned identifier ended with a DNS failure,
  // the identifier might have passed, so the result is unknown.
  const isUnknown =
    result === 'fail' &&
    ((sender.details.result === 'temperror' && wouldAlign(sender.details.domain, response.alignment?.spf.strict)) ||
      results.some(
        ({ status, signingDomain = '' }) =>
          status.result === 'temperror' && wouldAlign(signingDomain, response.alignment?.dkim.strict),
      ))
  return {
    dmarc: {
      result: isUnknown ? 'temperror' : result,
      domain: cleanText(author),
      policy: response.policy ?? null,
      comment: isUnknown
        ? 'SPF or DKIM could not be checked'
        : (cleanComment(response.status.comment) ?? cleanComment('error' in response ? response.error : undefined)),
    },
    isAligned: (domain, passes) =>
      passes
        ? dkimAligned?.has(toComparableDomain(domain)) === true
        : wouldAlign(domain, response.alignment?.dkim.strict),
  }
}

const isSameOrBelow = (domain: string, parent: string): boolean =>
  parent !== '' && (domain === parent || domain.endsWith(`.${parent}`))

// ---- Sanitising remote text for storage and output

const VERDICTS: readonly Verdict[] = ['pass', 'fail', 'softfail', 'neutral', 'none', 'policy', 'temperror', 'permerror']

/** Maps mailauth's verdict to ours; an unknown word is a permerror. */
const toVerdict = (text: unknown): Verdict => VERDICTS.find((verdict) => verdict === text) ?? 'permerror'

// C0 and C1 controls, and characters that change the writing direction.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

const cleanText = (text: string | undefined, maxLength = MAX_NAME_LENGTH): string =>
  (text ?? '').replace(UNPRINTABLE, ' ').trim().slice(0, maxLength).toWellFormed()

function cleanComment(comment: unknown, prefix = ''): string | null {
  if (typeof comment !== 'string') return null
  return cleanText(comment.startsWith(prefix) ? comment.slice(prefix.length) : comment, MAX_COMMENT_LENGTH) || null
}

const cleanErrorMessage = (error: unknown): string =>
  cleanText(error instanceof Error ? error.message : String(error), MAX_COMMENT_LENGTH)

/** Writes an IPv4-mapped IPv6 address in dotted form, and removes the zone. */
function normaliseIp(ip: string): string {
  const [address = ''] = ip.split('%')
  if (!address.includes(':')) return address
  const groups = parseIpv6Groups(address)
  if (groups.slice(0, 5).some((group) => group !== 0) || groups[5] !== 0xffff) return address
  return readIpv4At(groups, 6)
}
