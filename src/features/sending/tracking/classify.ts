/**
 * @module Whether a person or a machine loaded a pixel or followed a link, as far as a request tells. Scanners follow every link of a message,
 * image proxies load its pictures, and previews and prefetchers load what nobody has asked for yet.
 *
 * What cannot be told: a scanner that gives itself out as a browser, and Apple's Mail Privacy Protection where it says more than `Mozilla/5.0`.
 * Gmail and Yahoo load pictures through proxies when somebody reads; the interface wants proxies filtered out, so such opens count as machine.
 */
import { isbot } from 'isbot'

/** isbot takes these for machines, because they do not look like a browser; people read mail with them. */
const MAIL_PROGRAMS =
  /\b(?:airmail|bluemail|claws mail|delta ?chat|edison mail|em ?client|evolution|fairemail|foxmail|geary|k-9 mail|kmail|lotus-notes|mailbird|mailmate|mailspring|outlook-android|postbox|sparkdesktop|superhuman|sylpheed|trojita|yahoomobilemail|zimbradesktop)\b/i

/**
 * Scanners, gateways and image proxies, and the Edge of 2015 as which Gmail loads pictures before anybody looks; isbot knows many of them in other
 * spellings, but not all inside a browser's own name.
 */
const MAIL_MACHINES =
  /googleimageproxy|ggpht\.com|edge\/12\.246 (?:mozilla\/5\.0|gmail-content-sampling)|yahoomailproxy|seznamemailproxy|imageproxy|imageresizer|bingpreview|safelinks|exchange online protection|mailscanner|barracuda|proofpoint|ppspider|mimecast|symantec|messagelabs|brightmail|cloudmark|trend ?micro|ironport|cisco secure email|fireeye|trellix|mcafee|forcepoint|websense|sophos|fortinet|fortiguard|fortimail|bitdefender|avanan|check ?point|vade ?secure|hornetsecurity|spamtitan|zscaler|palo ?alto ?networks|kaspersky|clamav|libraesva|retarus|nospamproxy|trustwave|darktrace|ironscales|perception-point|urlscan|virustotal|phishtank|feedfetcher|gtmetrix|puppeteer|powershell/i

/** Browsers and mail programs say so when they load something in advance. */
const PREFETCH_HEADERS = ['sec-purpose', 'purpose', 'x-purpose', 'x-moz'] as const
const PREFETCH = /prefetch|prerender|preview|instant/i

export type Visitor = 'human' | 'machine'

/** Who made a request. */
export function classifyVisitor(headers: Headers): Visitor {
  if (PREFETCH_HEADERS.some((name) => PREFETCH.test(headers.get(name) ?? ''))) return 'machine'
  const userAgent = (headers.get('user-agent') ?? '').slice(0, MAX_USER_AGENT_LENGTH).trim()
  if (userAgent === '' || MAIL_MACHINES.test(userAgent)) return 'machine'
  if (MAIL_PROGRAMS.test(userAgent)) return 'human'
  return isbot(userAgent) ? 'machine' : 'human'
}

/** In characters; what is longer is cut, before it is looked at or kept. */
export const MAX_USER_AGENT_LENGTH = 512
