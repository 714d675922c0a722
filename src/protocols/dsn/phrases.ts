/**
 * @module Phrases of reports that follow no standard, in the languages of the large providers: English, German, French,
 * Spanish, Italian, Portuguese, Dutch and Japanese. Every expression is a list of plain alternatives, so matching
 * takes time linear in the text.
 */

/** Subjects of failure reports. */
export const FAILURE_SUBJECT =
  /undeliver|delivery (?:status )?(?:notification|failure|failed|report|problem|error)|failure notice|failure delivery|returned (?:mail|to sender)|mail (?:delivery )?(?:failed|failure|error|returned|system error)|could not be delivered|not delivered|non-?delivery|unzustellbar|nicht zugestellt|nicht zustellbar|zustellung fehlgeschlagen|fehler bei der zustellung|non remis|[ée]chec de (?:la )?(?:remise|distribution|livraison)|non distribu|impossible de remettre|no se (?:pudo|ha podido) entregar|no entregad|error (?:de|en la) entrega|mancat[ao] (?:consegna|recapito)|non recapitat|impossibile recapitare|falha na entrega|n[ãa]o (?:foi )?entreg|devolvid|devuelto|onbestelbaar|niet bezorgd|配信不能|配信でき|配信エラー|送信でき|送信エラー|エラーメール|未配達|届きません/i

/**
 * Subjects of automatic replies on behalf of a person. They are matched only at the start, because a report may quote
 * such a subject.
 */
export const AUTOMATIC_REPLY_SUBJECT =
  /^\s*(?:(?:re|aw|sv|r|antw)\s?:\s{0,3})?(?:auto(?:matic|mated|-|\s)?\s?(?:reply|response|responder|antwort)|autoreply|autoresponse|autoantwort|automatische (?:antwort|abwesenheit)|out of (?:the )?office|away from|abwesen|vacation|on (?:vacation|leave|holiday)|urlaub|r[ée]ponse automatique|absence|absent|respuesta autom|fuera de (?:la )?oficina|ausente|risposta automatica|fuori (?:sede|ufficio)|resposta autom|aus[êe]ncia|automatisch antwoord|afwezig|自動返信|自動応答|不在)/i

/** Phrases that say that delivery of the message is still being attempted. */
export const DELAY =
  /(?:warning|message) only|warning message|not? need to re-?send|will (?:keep|continue) (?:on )?(?:trying|to try|to retry|to attempt)|attempts will continue|(?:has been|is|was|been|being) delayed|delayed (?:mail|delivery|message)|delay notification|still being retried|not yet (?:been )?delivered|will be retried|weiter(?:hin)? (?:zu )?(?:versuch|zuzustellen)|weitere zustellversuche|verz[öo]gert|noch nicht zugestellt|retard[ée]|retrasad|se seguir[áa] intentando|ritardat|in ritardo|atrasad|vertraagd|遅延|遅れて|再送を試み/i

/** Phrases that say that there are no further attempts, whatever else the text says about delays. */
export const FINAL =
  /giv(?:en|ing) up|not going to try again|permanent|no further|will not be (?:retried|re-?sent)|deleted from (?:the )?queue|endg[üu]ltig|d[ée]finiti/i

/** Phrases that say that the message was delivered or relayed. */
export const SUCCESS =
  /success(?:ful|fully)? (?:mail )?(?:deliver|relay)|(?:was|were|has been|have been) (?:successfully )?(?:delivered|relayed) to|is complete, but no delivery notification|erfolgreich (?:zugestellt|ausgeliefert)|a [ée]t[ée] (?:remis|distribu|livr)|se ha entregado|[èe] stato (?:consegnato|recapitato)|foi entregue/i

/** Phrases of a challenge, which asks the sender to prove that a person sent the message. */
export const CHALLENGE =
  /confirm (?:that )?(?:you|your|this)|verify (?:that )?(?:you|your)|prove (?:that )?you|(?:click|follow) (?:on )?(?:the|this) link|spam ?arrest|challenge|are (?:a )?human|approved sender|to release (?:your|the|this)/i

/** Subjects of read receipts (RFC 8098) that are not in standard form. */
export const RECEIPT_SUBJECT =
  /^\s*(?:read|gelesen|lu|le[íi]d[oa]|letto|lida|gelezen|opened|not read|ungelesen|deleted|return receipt(?: \(displayed\))?|lesebest[äa]tigung|開封済み)\s?[:-]/i

/**
 * Maps phrases to enhanced status codes (RFC 3463 §3). The first match wins, so phrases that name a cause come before
 * those that only state a failure.
 */
export const CAUSES: readonly (readonly [RegExp, string])[] = [
  [
    /timed? ?out after|retry time ?out|retry time not reached|for (?:the last |more than )?\d{1,4} (?:days|hours|minutes)|(?:in the )?queue too long|(?:message|envelope) (?:has )?expired|maximum (?:retry|queue) (?:time|lifetime)|giving up after|given up after|within \d{1,4} (?:days|hours|minutes)|innerhalb von|w[äa]hrend (?:der letzten )?\d{1,4}|d[ée]lai (?:de )?(?:remise|livraison|expir)|tiempo de espera|tempo (?:scaduto|limite|esgotado)|(?:日|時間)以内に/i,
    '4.4.7',
  ],
  [
    /host (?:or domain name )?(?:was )?not found|domain (?:name )?(?:was )?(?:not found|does ?n[o']t exist|not exist)|unknown (?:host|domain)|code nxdomain|no mx (?:record|host)|name service error|could ?n[o']t find any host|unrouteable mail domain|domain(?:\s\S{1,80})? (?:existiert nicht|nicht gefunden|unbekannt)|domaine (?:inconnu|introuvable)|dominio (?:no existe|desconocido|inesistente|sconosciuto)|dom[íi]nio (?:n[ãa]o existe|inexistente)|ドメインが(?:存在|見つか)/i,
    '5.1.2',
  ],
  [
    /mail ?box(?:\s\S{1,40}){0,4} (?:over)?full|mailfolder is full|(?:mail|in)box (?:is )?(?:over|exceed|too full)|over ?quota|(?:exceed|reach)\S{0,4}(?:\s\S{1,30}){0,4} (?:quota|storage|capacity|mailbox size)|quota (?:has been )?(?:exceeded|reached)|out of storage|insufficient storage|not enough (?:storage|space)|(?:account|inbox|mailbox|user'?s? mailbox) is full|postfach(?:\s\S{1,40}){0,3} (?:voll|[üu]berf[üu]llt)|speicherplatz|kontingent|bo[îi]te(?:\s\S{1,40}){0,6} (?:pleine|satur[ée]e)|quota (?:d[ée]pass[ée]|super[ao]t|excedid)|buz[óo]n(?:\s\S{1,40}){0,4} (?:lleno|completo)|cuota|casella(?:\s\S{1,40}){0,5} piena|caixa(?:\s\S{1,40}){0,6} cheia|mailbox(?:\s\S{1,40}){0,4} is vol\b|容量|一杯|いっぱい/i,
    '5.2.2',
  ],
  [
    /too (?:large|big)|exceeds? (?:the )?(?:maximum |allowed |fixed )?(?:message )?size|size limit|zu gro(?:ß|ss)|trop (?:volumineux|gros)|demasiado grande|troppo grande|muito grande|te groot|サイズ(?:が|制限)/i,
    '5.2.3',
  ],
  [
    /(?:account|mailbox|user|recipient|address)(?:\s\S{1,80})? (?:is |has been |was )?(?:disabled|inactive|suspended|deactivated|not active|discontinued|closed)|no longer (?:active|available|in use|valid|accept)|not accepting (?:any )?(?:mail|messages)(?! from)|deaktiviert|gesperrt|d[ée]sactiv[ée]|desactivad|disattivat|disabilitat|desativad|suspendid|gedeactiveerd|利用停止|停止されて/i,
    '5.2.1',
  ],
  [
    /user unknown|unknown (?:user|recipient|mailbox|address|local)|unknown to|no such (?:user|recipient|mailbox|address|person|account|local user)|no mailbox|no (?:user|account|one) (?:named|by that|with that|of that)|(?:user|recipient|mailbox|account|address|alias|e-?mail)(?: \S{1,80})?(?:,? \S{1,30})? (?:was |is |were |could |can)? ?(?:n[o']t|not be) (?:found|listed|known|recogni[sz]ed|exist)|does ?n[o']t (?:exist|have an? \S{1,60} account)|not listed in|not found in (?:the )?directory|wasn'?t found|could ?n[o']t be found|(?:find|locate) (?:the )?(?:recipient|user|mailbox|address)|invalid (?:recipient|mailbox|address|user)|(?:recipient|user|mailbox|address)(?:\s\S{1,80})? (?:is )?(?:unknown|invalid|rejected: user)|address (?:is )?(?:invalid|rejected)|unrouteable address|bad (?:destination )?(?:mailbox )?address|empf[äa]nger(?:adresse)?(?:\s\S{1,80}){0,2} (?:ist )?(?:unbekannt|nicht (?:gefunden|bekannt|vorhanden)|ung[üu]ltig|existiert nicht)|(?:adresse|postfach|benutzer|konto)(?:\s\S{1,80}){0,2} (?:ist )?(?:unbekannt|nicht (?:gefunden|bekannt|vorhanden)|ung[üu]ltig|existiert nicht)|existiert nicht|unbekannte[rn]? (?:empf[äa]nger|benutzer|adresse)|(?:utilisateur|destinataire|adresse)(?:\s\S{1,80}){0,2} (?:est )?(?:inconnue?|introuvable|inexistant|invalide)|n'existe pas|n['’]a pas [ée]t[ée] trouv|(?:usuario|destinatario|direcci[óo]n|buz[óo]n|cuenta)(?:\s\S{1,80}){0,2} (?:es )?(?:desconocid|inexistente|no (?:existe|encontrad|v[áa]lid))|no (?:existe|se (?:encontr[óo]|ha encontrado|encuentra))|(?:utente|destinatario|indirizzo|casella)(?:\s\S{1,80}){0,2} (?:[èe] )?(?:sconosciut|inesistente|non (?:esiste|trovat|valid))|non (?:esiste|[èe] stato trovato)|(?:usu[áa]rio|destinat[áa]rio|endere[çc]o|conta)(?:\s\S{1,80}){0,2} (?:[ée] )?(?:desconhecid|inexistente|inv[áa]lid|n[ãa]o (?:existe|encontrad|foi encontrad))|n[ãa]o (?:existe|foi encontrad)|bestaat niet|onbekende (?:gebruiker|ontvanger)|見つかりません|存在しません|存在しない|宛先不明|宛先(?:が)?不明|ユーザーが不明/i,
    '5.1.1',
  ],
  [
    /spam|blocked|not accepting (?:any )?(?:mail|messages) from|block ?list|blacklist|policy|prohibited|not (?:authori[sz]ed|permitted|allowed)|access denied|relay(?:ing)? (?:access )?denied|content (?:was )?(?:rejected|filter)|message (?:was )?(?:rejected|refused)|abgelehnt|abgewiesen|zur[üu]ckgewiesen|rejet[ée]|refus[ée]|rechazad|rifiutat|respint|rejeitad|recusad|geweigerd|拒否/i,
    '5.7.1',
  ],
]

/** Phrases that say that the message was not delivered, but not why. */
export const FAILURE =
  /undeliverable|unable to deliver|not able to deliver|(?:could|can) ?n[o']t (?:be )?deliver|(?:could|can|was|has|been) ?(?:not|n't) (?:be |been )?(?:delivered|sent)|not (?:be |been )?delivered|delivery (?:has )?failed|failed to deliver|delivery failure|delivery to the following|did not reach|permanent (?:fatal )?(?:error|failure)|fatal error|returned (?:to sender|unopened)|nicht (?:zugestellt|ausgeliefert|zustellbar|[üu]bermittelt)|zustellung(?:\s\S{1,80}){0,4} (?:fehlgeschlagen|gescheitert|nicht m[öo]glich)|unzustellbar|(?:pas|impossible)(?:\s\S{1,30}){0,5} (?:remis|remettre|distribu|livr|achemin)|[ée]chec de (?:la )?(?:remise|distribution|livraison)|no (?:se )?(?:ha )?(?:pudo|podido|sido|puede)(?:\s\S{1,30}){0,3} (?:entreg|envia)|error (?:de|en la) entrega|non (?:[èe] )?(?:stato |possibile |potuto )*(?:recapit|consegn)|impossibile (?:recapitare|consegnare)|mancat[ao] (?:consegna|recapito)|n[ãa]o (?:foi |p[ôo]de |pode |ser |poss[íi]vel )*entreg|falha na entrega|niet (?:worden )?(?:bezorgd|afgeleverd)|配信でき|配信に失敗|配信されません|届けることができ|送信でき|送信に失敗|届きません/i
