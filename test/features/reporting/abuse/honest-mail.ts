/**
 * @module Honest mail as banks, shops and services send it, in six languages, written for these tests. None of it may
 * pause an account.
 */

export interface Sample {
  readonly from: string
  readonly subject: string
  readonly html?: string
  readonly text?: string
}

const link = (href: string, text: string): string => `<p><a href="${href}">${text}</a></p>`

export const HONEST: readonly Sample[] = [
  {
    from: 'Acme <no-reply@acme.example.com>',
    subject: 'Reset your password',
    html: `<p>Somebody asked to reset your password. The link works within 24 hours.</p>${link('https://app.example.com/reset?t=abc', 'Choose a new password')}<p>If it was not you, ignore this email.</p>`,
  },
  {
    from: 'Sparkasse <service@sparkasse.de>',
    subject: 'Neue Mitteilung in Ihrem Postfach',
    html: `<p>Sehr geehrter Herr Kunde, in Ihrem Online-Banking liegt eine neue Mitteilung. Bitte geben Sie niemals Ihre pushTAN weiter.</p>${link('https://www.sparkasse.de/login', 'Zum Postfach')}`,
  },
  {
    from: 'PayPal <service@paypal.com>',
    subject: 'Receipt for your payment',
    html: `<p>You paid 12.00 EUR to Shop.</p>${link('https://www.paypal.com/activity', 'www.paypal.com/activity')}`,
  },
  {
    from: 'Nordic Outdoor <hello@nordic-outdoor.com>',
    subject: 'Your order #4711 is on its way',
    html: `<p>We handed your parcel to DHL.</p>${link('https://www.dhl.de/track?n=00340434', 'Track at DHL')}<p>Pay with PayPal, Klarna or Apple Pay next time, too.</p>`,
  },
  {
    from: 'Nordic Outdoor <hello@nordic-outdoor.com>',
    subject: 'Winter sale: 30 % until Sunday',
    html: `<div style="display:none">Jackets and boots for less, only this week &zwnj;&nbsp;&zwnj;&nbsp;&zwnj;</div><h1>Sale</h1>${link('https://click.mailer.example.net/c/1', 'www.nordic-outdoor.com')}${link('https://nordic-outdoor.com/unsubscribe', 'Unsubscribe')}`,
  },
  {
    from: 'Boutique Lumiere <contact@boutique-lumiere.fr>',
    subject: 'Réinitialisation de votre mot de passe',
    html: `<p>Pour choisir un nouveau mot de passe, suivez ce lien sous 24 heures.</p>${link('https://www.boutique-lumiere.fr/compte/mdp?x=1', 'Nouveau mot de passe')}`,
  },
  {
    from: 'Tienda Sol <info@tiendasol.es>',
    subject: 'Restablece tu contraseña',
    html: `<p>Has pedido cambiar tu contraseña. El enlace vale 24 horas.</p>${link('https://tiendasol.es/cuenta/clave', 'Cambiar contraseña')}`,
  },
  {
    from: 'Bottega Roma <ordini@bottegaroma.it>',
    subject: 'Conferma dell’ordine 882',
    html: `<p>Grazie per il suo ordine. La fattura è nel suo account.</p>${link('https://bottegaroma.it/account/ordini/882', 'Vedi ordine')}`,
  },
  {
    from: 'Fietsenwinkel <info@fietsenwinkel.nl>',
    subject: 'Stel je wachtwoord opnieuw in',
    html: `<p>Je wachtwoord opnieuw instellen kan binnen 24 uur.</p>${link('https://www.fietsenwinkel.nl/wachtwoord/abc', 'Wachtwoord instellen')}`,
  },
  {
    from: 'Buchhandlung Wagner <service@buch-wagner.de>',
    subject: 'Bitte bestätigen Sie Ihre Anmeldung',
    html: `<p>Bitte bestätigen Sie Ihre E-Mail-Adresse für unseren Newsletter.</p>${link('https://buch-wagner.de/newsletter/ok?x=2', 'Anmeldung bestätigen')}`,
  },
  {
    from: 'Cloudy <security@cloudy.io>',
    subject: 'New sign-in from Firefox on Linux',
    html: `<p>We noticed unusual activity: a sign-in from Berlin. If it was not you, reset your password immediately.</p>${link('https://cloudy.io/security', 'Review activity')}`,
  },
  {
    from: 'Cloudy <billing@cloudy.io>',
    subject: 'Payment failed: please update your payment method',
    html: `<p>Your card was declined. Update your payment details within 48 hours, or your plan will be suspended.</p>${link('https://billing.cloudy.io/pm', 'Update your payment method')}`,
  },
  {
    from: 'Cloudy <billing@cloudy.io>',
    subject: 'Invoice 2026-0031',
    html: `<p>Your invoice is ready.</p>${link('https://invoice.stripe.com/i/acct_1/abc', 'View invoice')}`,
  },
  {
    from: 'Deutsche Bank <noreply@db.com>',
    subject: 'Ihr Kontoauszug ist da',
    text: 'Ihr Kontoauszug liegt im Online-Banking bereit: https://meine.deutsche-bank.de/ . Wir fragen nie per E-Mail nach Zugangsdaten.',
  },
  {
    from: 'GitSpace <noreply@gitspace.dev>',
    subject: 'Your verification code is 482913',
    text: 'Enter this code to verify your device: 482913. It expires in 10 minutes. https://gitspace.dev/sessions/verified-device',
  },
  {
    from: 'Ada from Teamly <ada@teamly.app>',
    subject: 'Ada invited you to the workspace Rockets',
    html: `${link('https://teamly.app/join/xyz', 'Join the workspace')}<p>Or sign in with Google or Microsoft.</p>`,
  },
  {
    from: 'Teamly <notify@teamly-mail.com>',
    subject: 'Reset your password for Teamly',
    html: `<p>You asked to reset your password.</p>${link('https://teamly.app/reset/abc', 'Reset password')}`,
  },
  {
    from: 'Kraken Yachting <crew@kraken-yachting.com>',
    subject: 'Your charter is confirmed',
    html: link('https://kraken-yachting.com/booking/17', 'See your booking'),
  },
  {
    from: 'Apple Tree Farm <hi@apple-tree-farm.com>',
    subject: 'Pick your own starts on Saturday',
    html: link('https://apple-tree-farm.com/visit', 'Plan your visit'),
  },
  {
    from: 'Amazonas Reisen <info@amazonas-reisen.de>',
    subject: 'Passwort zurücksetzen',
    html: `<p>Sie haben Ihr Passwort vergessen? Der Link gilt innerhalb von 24 Stunden.</p>${link('https://www.amazonas-reisen.de/konto', 'Neues Passwort')}`,
  },
  {
    from: 'Immo24 Verwaltung <post@hv-muster.de>',
    subject: 'Dringend: Wasser wird morgen abgestellt',
    text: 'Sehr geehrte Mieter, morgen von 9 bis 12 Uhr wird das Wasser gesperrt. Fragen an post@hv-muster.de.',
  },
  {
    from: 'Inkasso Mustermann <mahnung@inkasso-muster.de>',
    subject: 'Letzte Mahnung zu Rechnung 1207',
    html: `<p>Bitte zahlen Sie umgehend 89,00 EUR auf das bekannte Konto.</p>${link('https://inkasso-muster.de/r/1207', 'Rechnung ansehen')}`,
  },
  {
    from: 'Devteam <ci@build.example.org>',
    subject: 'Build failed on main',
    html: link('http://192.168.1.20:8080/job/42', 'Open the build'),
  },
  {
    from: 'Router monitor <noc@isp.example.net>',
    subject: 'Host down',
    text: 'http://10.0.0.3/status did not answer. Urgent.',
  },
  {
    from: 'Shopware Partner <news@agentur-nord.de>',
    subject: 'Was Google 2026 ändert',
    html: `<p>Google, Microsoft und Amazon im Vergleich.</p>${link('https://agentur-nord.de/blog/google', 'Weiterlesen')}${link('https://developers.google.com/search', 'developers.google.com/search')}`,
  },
  {
    from: 'La Poste <notification@laposte.fr>',
    subject: 'Votre colis arrive demain',
    html: link('https://www.laposte.fr/outils/suivre-vos-envois?code=1', 'Suivre mon colis'),
  },
  {
    from: 'PostNL <info@postnl.nl>',
    subject: 'Je pakket komt morgen',
    html: link('https://jouw.postnl.nl/track/1', 'Volg je pakket'),
  },
  {
    from: 'Marktplatz <info@marktplatz.example.de>',
    subject: 'Ihr Angebot wurde deaktiviert',
    html: `<p>Ihr Angebot wurde deaktiviert, weil die Laufzeit endete.</p>${link('https://marktplatz.example.de/a/1', 'Erneut einstellen')}`,
  },
  {
    from: 'Survey Bureau <survey@bureau.example.org>',
    subject: 'How was your stay?',
    html: `<form action="https://bureau.example.org/s"><input name="score" type="radio"></form>${link('https://docs.google.com/forms/d/1', 'Open in the browser')}`,
  },
  {
    from: 'University IT <it-service@uni.example.edu>',
    subject: 'Your password expires in 14 days',
    html: `<p>Please choose a new one at the account portal before it expires.</p>${link('https://idm.uni.example.edu/', 'idm.uni.example.edu')}`,
  },
  {
    from: 'Museum <presse@museum-köln.de>',
    subject: 'Einladung zur Vernissage',
    html: link('https://museum-köln.de/vernissage', 'museum-köln.de'),
  },
  {
    from: 'Credit Union <alerts@riverside-cu.org>',
    subject: 'Suspicious activity on your card',
    html: `<p>We declined a payment of $412.09. Call the number on your card immediately if it was yours.</p>${link('https://www.riverside-cu.org/alerts', 'www.riverside-cu.org/alerts')}`,
  },
  {
    from: 'Zahnarztpraxis Dr. Klein <praxis@zahnarzt-klein.de>',
    subject: 'Terminerinnerung',
    text: 'Ihr Termin: Montag, 9 Uhr. Absagen bitte unter https://zahnarzt-klein.de/termin/1.',
  },
  {
    from: 'Newsroom <daily@newsroom.example.com>',
    subject: 'Phishing wave hits PayPal and DHL customers',
    html: `<p>Criminals ask readers to verify your account within 24 hours. What to look for.</p>${link('https://newsroom.example.com/a/77', 'Read on')}${link('https://www.bsi.bund.de/', 'www.bsi.bund.de')}`,
  },
  {
    from: 'Reseller <shop@mac-haus.de>',
    subject: 'Neues von Apple',
    html: `${link('https://www.mac-haus.de/iphone', 'Zum iPhone')}${link('https://www.apple.com/de/', 'apple.com')}`,
  },
  {
    from: 'Event Desk <tickets@event-desk.io>',
    subject: 'Your tickets',
    html: `${link('https://event-desk.io/t/1', 'Open tickets')}${link('https://bit.ly/3abc', 'Map')}`,
  },
  {
    from: 'Bank of Nowhere <info@nowherebank.com>',
    subject: 'Confirm your identity to open your account',
    html: `<p>Thanks for applying. Confirm your identity with your ID document.</p>${link('https://apply.nowherebank.com/kyc/1', 'Continue')}`,
  },
  {
    from: 'Broadcast <hi@mailer.example.com>',
    subject: 'Hello {{ first_name }}',
    html: '<a href="{{ reset_url }}">Reset your password</a><a href="https://mailer.example.com/{{ id }}">mailer.example.com</a>',
  },
]
