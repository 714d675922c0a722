/** @module Typical phishing in six languages, written for these tests; every host is invented. */
import type { Sample } from './honest-mail.ts'

const link = (href: string, text: string): string => `<p><a href="${href}">${text}</a></p>`

export const PHISHING: readonly Sample[] = [
  {
    from: 'PayPal <service@mailing-47.example.com>',
    subject: 'Your account has been limited',
    html: `<p>Dear customer, we noticed unusual activity. Verify your account within 24 hours or it will be suspended.</p>${link('https://secure-paypal.login-check.xyz/a', 'Verify now')}`,
  },
  {
    from: 'Support <info@firma-meier.de>',
    subject: 'Action required',
    html: `<p>Confirm your identity immediately.</p>${link('http://203.0.113.7/paypal/login', 'https://www.paypal.com/signin')}`,
  },
  {
    from: 'Sparkasse Kundenservice <kontakt@shop-info.biz>',
    subject: 'Ihr Online-Zugang wurde eingeschränkt',
    html: `<p>Bitte aktualisieren Sie Ihr pushTAN-Verfahren umgehend, sonst wird Ihr Konto gesperrt.</p>${link('https://sparkasse-pushtan.de-kunden.info/', 'Jetzt aktualisieren')}`,
  },
  {
    from: 'DHL Express <paket@webshop-kiel.de>',
    subject: 'Ihr Paket wartet',
    html: `<p>Die Zollgebühr von 1,99 EUR ist offen. Geben Sie Ihre Kartendaten innerhalb von 48 Stunden ein.</p>${link('https://dhl-zoll.parcel-fee.top/pay', 'Gebühr zahlen')}`,
  },
  {
    from: 'Microsoft 365 <admin@it-desk.example.org>',
    subject: 'Your password expires today',
    html: `<p>Keep your password or lose access to your mailbox.</p>${link('https://microsoftonline-login.web.app/keep', 'Keep current password')}`,
  },
  {
    from: 'IT Helpdesk <helpdesk@company-mail.example.net>',
    subject: 'Mailbox is almost full',
    html: `<p>Verify your mailbox within 24 hours to avoid interruption.</p>${link('https://mail-quota.weebly.com/', 'Verify your mailbox')}`,
  },
  {
    from: 'La Banque Postale <info@asso-sport.fr>',
    subject: 'Votre compte est suspendu',
    html: `<p>Confirmez votre identité sous 24 heures, sinon votre carte bancaire sera bloquée.</p>${link('https://labanquepostale.certicode-plus.info/', 'Confirmer')}`,
  },
  {
    from: 'Ameli <contact@mail-sante.info>',
    subject: 'Votre nouvelle carte vitale',
    html: `<p>Mettre à jour vos informations immédiatement, y compris vos coordonnées bancaires.</p>${link('https://ameli-vitale.carte-2026.com/f', 'Mettre à jour')}`,
  },
  {
    from: 'BBVA <avisos@notificacion-web.com>',
    subject: 'Su cuenta ha sido bloqueada',
    html: `<p>Verifique su identidad en 24 horas y confirme sus datos bancarios.</p>${link('https://bbva.acceso-cliente.online/', 'Verificar')}`,
  },
  {
    from: 'Correos <envios@paquete-aviso.com>',
    subject: 'Último aviso: su envío está retenido',
    html: `<p>Introduzca los datos de su tarjeta para pagar 2,64 EUR.</p>${link('https://correos.entrega-es.top/', 'https://www.correos.es/seguimiento')}`,
  },
  {
    from: 'Poste Italiane <servizio@clienti-avviso.it>',
    subject: 'Il tuo conto è stato sospeso',
    html: `<p>Aggiorna i tuoi dati entro 24 ore con le tue credenziali.</p>${link('https://poste-italiane.verifica-conto.top/', 'Accedi')}`,
  },
  {
    from: 'Intesa Sanpaolo <info@negozio-web.it>',
    subject: 'Accesso non autorizzato',
    html: `<p>Conferma la tua identità o la carta verrà bloccata. Inserisci i dati della carta.</p>${link('https://intesasanpaolo.sicurezza-app.info/', 'Conferma')}`,
  },
  {
    from: 'ING Bank <service@klant-bericht.nl>',
    subject: 'Uw bankpas verloopt vandaag',
    html: `<p>Bevestig uw gegevens binnen 24 uur, anders wordt uw rekening geblokkeerd.</p>${link('https://ing.bankpas-aanvraag.info/', 'Bevestigen')}`,
  },
  {
    from: 'DigiD <noreply@overheid-bericht.com>',
    subject: 'Laatste herinnering',
    html: `<p>Uw DigiD is beperkt. Uw wachtwoord moet per direct vernieuwd worden.</p>${link('https://digid.inloggen-nl.top/', 'https://www.digid.nl/inloggen')}`,
  },
  {
    from: 'Netflix <billing@stream-info.example.com>',
    subject: 'Your membership is on hold',
    html: `<p>Update your payment details immediately.</p>${link('https://netflix.account-renew.site/', 'Update')}`,
  },
  {
    from: 'Amazon <order@buy-news.example.com>',
    subject: 'Unauthorized order',
    html: `<p>Your account is locked. Verify your card and confirm your password.</p>${link('https://amaz0n.support-case.info/', 'Cancel order')}`,
  },
  {
    from: 'Security team <security@acme.example.com>',
    subject: 'Sign-in blocked',
    html: `<p>Confirm your password immediately.</p>${link('https://pаypal.com/', 'Review')}`,
  },
  {
    from: 'Apple Support <id@service-mail.example.com>',
    subject: 'Your Apple ID is locked',
    html: `<p>Unlock your account within 24 hours. Verify your identity.</p>${link('https://appleid.apple.com.unlock-case.info/', 'appleid.apple.com')}`,
  },
  {
    from: 'Wallet <no-reply@web3-news.example.com>',
    subject: 'Suspicious activity on your MetaMask wallet',
    html: `<p>Connect your wallet and enter your recovery phrase immediately.</p>${link('https://metamask-verify.pages.dev/', 'Connect')}`,
  },
  {
    from: 'Coinbase <alerts@crypto-post.example.com>',
    subject: 'Withdrawal request',
    html: `<p>If it was not you, verify your identity immediately.</p>${link('https://coinbase.cancel-withdrawal.com/', 'Cancel withdrawal')}`,
  },
  {
    from: 'DocuSign <dse@docs-share.example.com>',
    subject: 'Document for signature',
    html: `<p>Sign in to view the document. It expires today: urgent.</p>${link('https://docusign-doc.netlify.app/', 'REVIEW DOCUMENT')}`,
  },
  {
    from: 'Accounts <accounts@vendor.example.com>',
    subject: 'Shared file',
    html: `<p>Sign in with your email to read it.</p><form action="https://collect.example.top/x"><input name="e"><input type="password" name="p"></form>`,
  },
  {
    from: 'HR <hr@firm.example.com>',
    subject: 'Salary statement',
    html: `<p>Enter your password to open the statement. Urgent.</p>${link('data:text/html;base64,PGgxPkxvZ2luPC9oMT4=', 'Open')}`,
  },
  {
    from: 'Bank of America <alert@us-bank-mail.example.com>',
    subject: 'Your debit card has been locked',
    html: `<p>Verify your information: card number and social security number.</p>${link('https://bankofamerica.secure-verify.cc/', 'Verify')}`,
  },
  {
    from: 'Wells Fargo <notice@mail-drop.example.com>',
    subject: 'Unusual sign-in',
    text: 'We locked your account. Restore access within 24 hours: https://wellsfargo.online-restore.info/login',
  },
  {
    from: 'Postbank <info@kunden-dienst.example.com>',
    subject: 'Sicherheitsupdate BestSign',
    text: 'Ihr Konto wird gesperrt. Bitte bestätigen Sie umgehend Ihre Zugangsdaten: http://postbank.best-sign.info/',
  },
  {
    from: 'Volksbank Raiffeisenbank <service@vr-info.example.com>',
    subject: 'Neue VR SecureGo Registrierung',
    html: `<p>Ihr TAN-Verfahren läuft heute ab. Daten aktualisieren.</p>${link('https://volksbank-securego.top/', 'https://www.vr.de/securego')}`,
  },
  {
    from: 'FedEx <track@parcel-note.example.com>',
    subject: 'Pending delivery',
    html: `<p>We could not deliver. Confirm your details and card number.</p>${link('https://fedex.redelivery-fee.site/', 'Schedule delivery')}`,
  },
  {
    from: 'USPS <info@parcel-note.example.com>',
    subject: 'Address incomplete',
    html: `<p>Update your information within 12 hours.</p>${link('https://bit.ly/3xyz', 'https://www.usps.com/redelivery')}`,
  },
  {
    from: 'Facebook <security@page-case.example.com>',
    subject: 'Your page will be deleted',
    html: `<p>Final warning: verify your account.</p>${link('https://facebook.com@page-appeal.info/case', 'Appeal')}`,
  },
  {
    from: 'Instagram <help@badge-center.example.com>',
    subject: 'Copyright violation',
    html: `<p>Your account will be disabled within 24 hours. Log in to verify it is you.</p>${link('https://instagram-help.vercel.app/', 'Appeal form')}`,
  },
  {
    from: 'HSBC <alert@uk-notice.example.com>',
    subject: 'New payee added',
    html: `<p>If this was not you, confirm your details immediately.</p>${link('https://hsbc.payee-cancel.uk.com/', 'Cancel payee')}`,
  },
  {
    from: 'Revolut <card@fin-mail.example.com>',
    subject: 'Verify your card',
    html: `<p>Your card is on hold.</p>${link('https://rev0lut.card-check.info/', 'Verify your identity')}`,
  },
  {
    from: 'Crédit Agricole <conseiller@region-info.example.com>',
    subject: 'Activation SécuriPass',
    html: `<p>Votre accès sera désactivé. Saisissez vos identifiants sous 48 heures.</p>${link('https://credit-agricole.securipass-web.info/', 'Activer')}`,
  },
  {
    from: 'Santander <aviso@correo-seguro.example.com>',
    subject: 'Actividad sospechosa',
    html: `<p>Su acceso está restringido. Actualice sus datos y su clave de acceso.</p>${link('https://santander.cliente-seguro.online/', 'Actualizar')}`,
  },
  {
    from: 'Post <zustellung@versand-aktuell.example.com>',
    subject: 'Sendung konnte nicht zugestellt werden',
    html: `<p>Bitte zahlen Sie 1,50 EUR: Kreditkartendaten eingeben.</p>${link('https://zustellung.versand-gebuehr.example.com/', 'Weiter')}`,
  },
]
