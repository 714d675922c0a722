/** @module What the screens of the audience share: the links between them, the metadata of a contact. */
import { AreaNavigation } from '../../parts/page.tsx'

const LINKS = [
  { to: '/audience', label: 'Lists' },
  { to: '/audience/forms', label: 'Sign-up forms' },
  { to: '/audience/sequences', label: 'Sequences' },
] as const

export const AudienceNavigation = () => <AreaNavigation label="Audience" links={LINKS} />

const MAX_SHOWN_LENGTH = 1000

/** As `name: Bob, city: Berlin`, as much as a tooltip has room for. */
export function MetadataLine({ metadata }: { readonly metadata: Readonly<Record<string, unknown>> }) {
  const text = Object.entries(metadata)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
    .slice(0, MAX_SHOWN_LENGTH)
    .toWellFormed()
  return text === '' ? null : <bdi title={text}>{text}</bdi>
}
