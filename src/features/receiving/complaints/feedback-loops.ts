/**
 * @module Which provider's feedback loop sent a report, proven by SPF or DKIM: the addresses that loops send from, and those that the operator adds. Pure. Says
 * nothing about what is in the report.
 */
import type { ReceivedMail } from '#features/receiving/received/message.ts'
import type { Config } from '#platform/config.ts'

/**
 * Senders of feedback loops by provider. Whole addresses: anybody can have a mailbox at some of the domains, and mail from it passes SPF and DKIM too.
 *
 * Sources: Yahoo, https://senders.yahooinc.com/complaint-feedback-loop/ (envelope and From are the same); BlueTie, http://feedback.bluetie.com/faq.php;
 * Microsoft (JMRP) as programs that read its reports know it, https://github.com/zone-eu/zone-mta among them; the others, most of them run by Validity for the
 * provider, from the settings of https://github.com/AbuseIO/parser-fbl.
 */
const LOOP_SENDERS: Readonly<Record<string, readonly string[]>> = {
  Yahoo: ['feedback@arf.mail.yahoo.com'],
  Microsoft: ['staff@hotmail.com'],
  AOL: ['scomp@aol.net'],
  BlueTie: [
    'feedback@feedback.bluetie.com',
    'feedbackloop@feedback.bluetie.com',
    'feedbackloop@bluetiefbl.senderscore.net',
  ],
  Comcast: ['feedbackloop@comcastfbl.senderscore.net'],
  Cox: ['feedbackloop@fbl.cox.net', 'feedbackloop@coxfbl.senderscore.net'],
  Fastmail: ['feedbackloop@fbl.fastmail.com'],
  'Italia Online': ['feedbackloop@italianonlinefbl.senderscore.net'],
  Locaweb: ['feedbackloop@localwebfbl.senderscore.net'],
  'Mail.ru': ['feedbackloop@mailru.senderscore.net'],
  OpenSRS: ['feedbackloop@fbl.hostedemail.com', 'feedbackloop@fbl-opensrs.app.returnpath.net'],
  Rackspace: ['feedbackloop@fbl.apps.rackspace.com', 'feedbackloop@rackspacefbl.senderscore.net'],
  Spectrum: ['feedbackloop@feedback.postmaster.rr.com'],
  Synacor: ['feedbackloop@fbl.synacor.com', 'feedbackloop@synacorfbl.senderscore.net'],
  Telenor: ['feedbackloop@telnorfbl.senderscore.net'],
  Terra: ['feedbackloop@terrafbl.senderscore.net'],
  'USA.NET': ['feedbackloop@fbl.usa.net', 'feedbackloop@usanetfbl.senderscore.net'],
  XS4ALL: ['feedbackloop@fbl.xs4all.net', 'feedbackloop@xs4allfbl.senderscore.net'],
  Yandex: ['feedbackloop@yandexfbl.senderscore.net'],
  Zoho: ['feedbackloop@fbl.zoho.com'],
}

const PROVIDERS_BY_SENDER = new Map(
  Object.entries(LOOP_SENDERS).flatMap(([provider, senders]) => senders.map((sender) => [sender, provider] as const)),
)

/**
 * The provider whose feedback loop sent a message; undefined: none that is known, or nothing proves it. SPF proves the address of the envelope, and an aligned
 * DKIM signature the address of From.
 */
export function findFeedbackLoop(
  { feedbackLoops }: Pick<Config, 'feedbackLoops'>,
  { envelope, message, authentication }: Pick<ReceivedMail, 'envelope' | 'message' | 'authentication'>,
): string | undefined {
  const { spf, dkim } = authentication.details
  const provenAddresses: string[] = []
  if (spf.result === 'pass' && spf.identity === 'mailfrom') provenAddresses.push(envelope.mailFrom)
  const [from, ...others] = message?.fromAddresses ?? []
  if (from !== undefined && others.length === 0 && dkim.some(({ result, aligned }) => result === 'pass' && aligned))
    provenAddresses.push(from)
  return provenAddresses
    .map((address) => findProvider(feedbackLoops, address.toLowerCase()))
    .find((provider) => provider !== undefined)
}

function findProvider(extraEntries: readonly string[], address: string): string | undefined {
  const known = PROVIDERS_BY_SENDER.get(address)
  if (known !== undefined) return known
  const domain = address.slice(address.lastIndexOf('@') + 1)
  return extraEntries.find((entry) => entry === address || entry === domain)
}
