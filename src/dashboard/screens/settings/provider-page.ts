/** @module Goes to a page of the payment provider. */

/** Leaves the dashboard. Only web pages are opened: the URL comes from another host. */
export function openProviderPage(url: string): void {
  const { protocol } = new URL(url)
  if (protocol !== 'https:' && protocol !== 'http:') throw new Error('The payment provider returned no web page.')
  location.assign(url)
}
