/** @module What the screens of the audience share: the links between them, the state of a contact. */
import { AreaNavigation } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { CONTACT_STATES, type ContactStatus, toMetadataEntries } from './contact-search.ts'

const LINKS = [
  { to: '/audience', label: 'Lists' },
  { to: '/audience/forms', label: 'Sign-up forms' },
] as const

export const AudienceNavigation = () => <AreaNavigation label="Audience" links={LINKS} />

export const ContactStatusLabel = ({ status }: { readonly status: ContactStatus }) => (
  <StatusLabel tone={CONTACT_STATES[status].tone} title={CONTACT_STATES[status].meaning}>
    {CONTACT_STATES[status].word}
  </StatusLabel>
)

/** Each entry is isolated, so that its direction does not change the next one. */
export function MetadataLine({ metadata }: { readonly metadata: Readonly<Record<string, unknown>> }) {
  const entries = toMetadataEntries(metadata)
  if (entries.length === 0) return null
  return (
    <span title={entries.join(', ')}>
      {entries.map((entry, index) => (
        <span key={entry}>
          {index > 0 && ', '}
          <bdi>{entry}</bdi>
        </span>
      ))}
    </span>
  )
}
