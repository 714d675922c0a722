/** @module The brands that phishing imitates most, with the domains that they own. Data only. */

export interface Brand {
  /** As written in a host name, without spaces. */
  readonly token: string
  /** As written in a sender's name, in lower case. */
  readonly names: readonly string[]
  /** Registrable domains that the brand owns. */
  readonly domains: readonly string[]
  /** Whether the name is also a common word; a host that contains such a name proves little. */
  readonly isCommon?: true
}

const brand = (token: string, domains: string, names: readonly string[] = [token], isCommon?: true): Brand => ({
  token,
  names,
  domains: domains.split(' '),
  ...(isCommon && { isCommon }),
})

export const BRANDS: readonly Brand[] = [
  brand('paypal', 'paypal.com paypal.de paypal.me paypalobjects.com paypal-communication.com'),
  brand('microsoft', 'microsoft.com microsoftonline.com office.com live.com windows.com azure.com microsoft365.com'),
  brand('office365', 'office.com office365.com microsoft.com', ['office 365', 'microsoft 365']),
  brand('outlook', 'outlook.com live.com office.com microsoft.com', ['outlook'], true),
  brand('onedrive', 'onedrive.com live.com sharepoint.com microsoft.com'),
  brand('sharepoint', 'sharepoint.com microsoft.com'),
  brand('docusign', 'docusign.com docusign.net'),
  brand('dropbox', 'dropbox.com dropboxmail.com'),
  brand(
    'google',
    'google.com gmail.com youtube.com googlemail.com google.de google.co.uk google.fr goo.gl withgoogle.com googleapis.com gstatic.com google.ch google.at google.it google.es google.nl',
  ),
  brand('gmail', 'gmail.com google.com'),
  brand('apple', 'apple.com icloud.com', ['apple', 'apple id', 'apple support'], true),
  brand('icloud', 'icloud.com apple.com'),
  brand(
    'amazon',
    'amazon.com amazon.de amazon.co.uk amazon.fr amazon.it amazon.es amazon.nl amazonaws.com amazonses.com media-amazon.com amzn.to amzn.eu',
  ),
  brand('netflix', 'netflix.com nflxext.com netflix.net'),
  brand('spotify', 'spotify.com'),
  brand('facebook', 'facebook.com fb.com facebookmail.com meta.com'),
  brand('instagram', 'instagram.com facebook.com meta.com'),
  brand('whatsapp', 'whatsapp.com whatsapp.net facebook.com meta.com'),
  brand('linkedin', 'linkedin.com licdn.com'),
  brand('ebay', 'ebay.com ebay.de ebay.co.uk ebay.fr ebay.it ebay.es'),
  brand('coinbase', 'coinbase.com'),
  brand('binance', 'binance.com'),
  brand('metamask', 'metamask.io'),
  brand('ledger', 'ledger.com', ['ledger'], true),
  brand('kraken', 'kraken.com', ['kraken'], true),
  brand('revolut', 'revolut.com revolut.me'),
  brand('n26', 'n26.com'),
  brand('wise', 'wise.com transferwise.com', ['wise'], true),
  brand('klarna', 'klarna.com klarna.de'),
  brand('chase', 'chase.com jpmorgan.com', ['chase bank', 'jpmorgan chase'], true),
  brand('wellsfargo', 'wellsfargo.com', ['wells fargo']),
  brand('bankofamerica', 'bankofamerica.com bofa.com', ['bank of america']),
  brand('citibank', 'citi.com citibank.com', ['citibank', 'citi']),
  brand('hsbc', 'hsbc.com hsbc.co.uk hsbc.fr'),
  brand('barclays', 'barclays.com barclays.co.uk barclaycard.co.uk'),
  brand('santander', 'santander.com santander.es santander.de santander.co.uk bancosantander.es'),
  brand('bbva', 'bbva.com bbva.es bbva.it'),
  brand('sparkasse', 'sparkasse.de sparkasse.at s-finanzportal.de'),
  brand('commerzbank', 'commerzbank.de commerzbank.com'),
  brand('deutschebank', 'deutsche-bank.de db.com', ['deutsche bank']),
  brand('volksbank', 'vr.de volksbank.de', ['volksbank', 'volksbank raiffeisenbank']),
  brand('postbank', 'postbank.de'),
  brand('creditagricole', 'credit-agricole.fr credit-agricole.com', ['credit agricole']),
  brand('bnpparibas', 'bnpparibas.com bnpparibas mabanque.bnpparibas', ['bnp paribas']),
  brand('labanquepostale', 'labanquepostale.fr', ['la banque postale']),
  brand('intesasanpaolo', 'intesasanpaolo.com', ['intesa sanpaolo']),
  brand('unicredit', 'unicredit.it unicreditgroup.eu'),
  brand('rabobank', 'rabobank.nl rabobank.com'),
  brand('abnamro', 'abnamro.nl abnamro.com', ['abn amro']),
  brand('ing', 'ing.com ing.nl ing.de ing.es ing.it', ['ing bank', 'ing-diba'], true),
  brand('dhl', 'dhl.com dhl.de dhl.fr dhl.it dhl.es dhl.nl'),
  brand('fedex', 'fedex.com'),
  brand('ups', 'ups.com', ['ups'], true),
  brand('usps', 'usps.com'),
  brand('dpd', 'dpd.com dpd.de dpd.co.uk dpd.fr'),
  brand('hermes', 'myhermes.de hermesworld.com evri.com', ['hermes paketversand'], true),
  brand('postnl', 'postnl.nl postnl.com'),
  brand('correos', 'correos.es correos.com', ['correos']),
  brand('laposte', 'laposte.fr laposte.net', ['la poste', 'colissimo']),
  brand('posteitaliane', 'poste.it posteitaliane.it', ['poste italiane']),
  brand('digid', 'digid.nl'),
  brand('ameli', 'ameli.fr', ['ameli', 'assurance maladie']),
  brand('adobe', 'adobe.com', ['adobe'], true),
]
