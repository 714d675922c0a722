/**
 * @module The words in which servers say that a mailbox is not there or takes no mail any more, and those that show that something else is meant: the
 * sender, a rule of theirs, a rate, a full mailbox. Pure; looks at a bounded part of what a stranger may make long.
 */

/** Characters of a reply that are looked at. As many as are kept; the patterns below cost up to their square. */
const MOST_CHARACTERS = 2000

/** What stands for an address in a reply: its words say nothing of the cause (`<spam@example.com>: User unknown`). */
const ADDRESS = /<[^<>]{0,320}>|(?<![^\s<>])[^\s<>]{1,254}@[^\s<>]{1,254}/g

/** The beginning of a reply without the addresses in it, with single spaces. */
export const wordsOf = (text: string): string =>
  text.slice(0, MOST_CHARACTERS).replace(ADDRESS, ' ').replace(/\s+/g, ' ')

const WHOSE = '(?:user|recipient|addressee|mail ?box|account|address|alias|local[- ]?part|person|employee)'

const anyOf = (...patterns: readonly string[]): RegExp => new RegExp(`(?<![\\p{L}\\d])(?:${patterns.join('|')})`, 'iu')

/** There is no such mailbox. The languages are those of large receivers; `\S{1,2}` stands for an umlaut in whatever bytes it came. */
const UNKNOWN = anyOf(
  `${WHOSE}(?:'s)? (?:is |was )?(?:unknown|not known|not found|non-?existent|not registered|not listed)`,
  `${WHOSE} (?:\\S+ )?(?:(?:is |was )(?:unknown|not found)|does not exist|doesn't exist|do not exist|not exists?)`,
  `unknown (?:or (?:illegal|invalid) )?${WHOSE}`,
  `no such (?:local |mail |email |valid )?${WHOSE}`,
  'non-?existent (?:user|recipient|mailbox|account|address)',
  '(?:account|user|address) that you tried to reach does not exist',
  'no (?:mailbox|valid recipients?\\b(?! for))',
  '(?:bad|invalid) (?:recipient|mailbox|user|email recipient|destination (?:mailbox|address))s?\\b',
  'not a (?:valid|known) (?:user|recipient|mailbox|address|customer)',
  '(?:not a|not our) customer',
  "(?:user|account) doesn't have an? ",
  'unrout(?:e)?able address',
  'recipient cannot be verified',
  'unknown or illegal (?:user|alias)',
  // German, French, Spanish and Portuguese, Italian, Polish, Dutch.
  '(?:empf\\S{1,2}nger|benutzer|postfach|adresse|mailbox) (?:ist )?(?:unbekannt|existiert nicht|nicht (?:gefunden|vorhanden))',
  'unbekannter? (?:empf\\S{1,2}nger|benutzer|adresse)',
  '(?:utilisateur|destinataire|compte|adresse|bo\\S{1,2}te)(?: \\S+){0,2} (?:inconnue?|inexistante?|introuvable)',
  '(?:usuario|destinatario|buz\\S{1,2}n|cuenta|direcci\\S{1,2}n) (?:desconocid[oa]|inexistente|no existe|no encontrad[oa])',
  '(?:usu\\S{1,2}rio|destinat\\S{1,2}rio|conta) (?:desconhecid[oa]|inexistente|n\\S{1,2}o existe|n\\S{1,2}o encontrad[oa])',
  '(?:utente|destinatario|casella|indirizzo) (?:sconosciut[oa]|inesistente|non esiste|non trovat[oa])',
  '(?:u\\S{1,2}ytkownik|konto|adres) (?:nieznany|nie istnieje)',
  'nie ma takiego (?:u\\S{1,2}ytkownika|konta|adresu)',
  '(?:gebruiker|ontvanger|postbus) (?:is )?(?:onbekend|bestaat niet)',
  'onbekende (?:gebruiker|ontvanger)',
)

/** Said of a mailbox that is not there, and by some of one that they do not give this sender. */
const UNAVAILABLE = anyOf('mail ?box (?:is )?(?:unavailable|not available)')

/** There was one, or it is switched off. */
const DISABLED = anyOf(
  `${WHOSE}(?: \\S+)? (?:is |has been |was )?(?:disabled|inactive|deactivated|terminated|closed|expired|discontinued)`,
  `${WHOSE} that you tried to reach is (?:disabled|inactive)`,
  `(?:disabled|inactive|expired|closed) (?:user|recipient|mailbox|account|e-?mail|address)`,
  '(?:user|recipient|mailbox)(?: \\S+)? (?:is |has been |was )?suspended',
  `${WHOSE}(?: \\S+)? (?:is |has )?no longer (?:active|available|valid|exists?\\b|used?\\b|in use|on |with |here|employed|works?\\b|monitored|an? )`,
  `${WHOSE}(?: \\S+)? (?:is )?no longer (?:accept|receiv)(?:s|es?|ing) (?:e-?)?(?:mails?|messages?)\\b`,
  '(?:user|recipient|employee) (?:has )?left (?:the |our )',
)

/** The sender's address is meant: servers verify it with the words of their neighbour. */
const SENDER = anyOf(
  'senders?\\b|from[- ]address|return.?path|mail from|envelope|call(?:back|out) to|verification failed for|in your domain',
  'reply[- ]?(?:to|address)|originat(?:or|ing)|headers?\\b|message-?id',
)

/** Who answers could not look, or nothing of its domain is there: both may be otherwise tomorrow, whatever else it says of the mailbox. */
const UNSURE = anyOf(
  'temporar|greylist|timed?[- ]?out|in progress|maintenance|connection (?:refused|reset|failed|lost)|(?<!not )retry|deferred',
  '(?:ldap|database|directory|backend|server|system|internal|transport|storage)(?: \\S+)? (?:error|failed|failure|unavailable|down|problem)',
  'look-?ups?(?: \\S+)? (?:error|failed|failure)|verif\\S+ (?:in progress|pending)',
  `${WHOSE}(?:'s)? domain|domain (?:is |was )?(?:not|unknown|does not|doesn't)|unknown domain`,
)

/** The code of another cause, where a server quotes one that it asked. */
const OTHER_CODE = /(?<![\d.])(?:4\.\d{1,3}|5\.7)\.\d{1,3}(?![\d.]*\d)/

/** Something else than the mailbox is meant, or the mailbox not for good. */
const OTHERWISE = anyOf(
  'your (?:\\S+ )?(?:account|ip|server|host|domain|network|helo|organi[sz]ation|country|address)\\b|from you\\b',
  'helo\\b|ehlo\\b|hostname|ptr\\b|reverse|dns\\b|resource record|(?:ip|client|remote) address|address:? \\d',
  'rates?\\b|ratio\\b|count\\b|limit|too (?:many|quick|fast)|throttl|quota|full\\b|exceed|storage|size\\b',
  'try (?:again|another|the primary|our)|later\\b|for now|until\\b|holiday|vacation|hours?\\b|locked|pending|awaiting',
  'spam|unsolicited|junk|virus|malware|phish|content|attachment|newsletter|bulk|external|mime\\b',
  'block(?:ed|list| list)|black ?list|white ?list|allow ?list|denylist|dnsbl|rbl\\b|reputation|(?<!not )listed\\b|trusted',
  'polic(?:y|ies)|restrict|prohibit|denied|refused by|permission|permitted|not allowed|authori[sz]|authentic|dkim|dmarc|spf\\b',
  'relay(?!=| recipient)|will not accept|for sending|smtp account|closed connection|(?:rly|con|rtr|dyn|hvu):',
  'smtputf8|tls\\b|ssl\\b|encrypt|unencrypt|licen[cs]e|token\\b|syntax|subscription|password|credential|certificate',
  // What belongs to a mailbox is not the mailbox.
  "(?:user|recipient|mailbox|account|address)(?:'s)? (?:agent|session|token|input|store|database|server|error|name (?:or|in)\\b)",
  '(?:user|recipient|mailbox|account|address) (?:verification|validation|creation|profile)|address (?:list|book)',
  'delivery (?:is )?(?:disabled|suspended)|suspended delivery',
)

/** Exchange Online of an address that its directory does not have. */
const MICROSOFT_DIRECTORY = /\brecipient address rejected: access denied\b.{0,500}\bAS\(201806281\)/i

/** Cisco's appliances of an address that their directory does not have. */
const CISCO_DIRECTORY = /#5\.1\.0 address rejected/i

/** @param words of `wordsOf` */
export const isOfMicrosoftDirectory = (words: string): boolean => MICROSOFT_DIRECTORY.test(words)

/** @param words of `wordsOf` */
export const isUnknownMailbox = (words: string): boolean =>
  UNKNOWN.test(words) || UNAVAILABLE.test(words) || CISCO_DIRECTORY.test(words)

/** Unknown in words that are said of nothing else. @param words of `wordsOf` */
export const isPlainlyUnknown = (words: string): boolean => UNKNOWN.test(words)

/** @param words of `wordsOf` */
export const isDisabledMailbox = (words: string): boolean => DISABLED.test(words)

/** Whether a reply names the sender. @param words of `wordsOf` */
export const namesSender = (words: string): boolean => SENDER.test(words)

/** Whether who answers may find the mailbox tomorrow, or means no mailbox at all. @param words of `wordsOf` */
export const isUnsure = (words: string): boolean => UNSURE.test(words) || OTHER_CODE.test(words)

/** Whether a reply may mean something else than the mailbox. @param words of `wordsOf` */
export const meansSomethingElse = (words: string): boolean => OTHERWISE.test(words)
