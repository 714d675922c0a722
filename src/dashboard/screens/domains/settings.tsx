/** @module The switches of a domain: inbound mail, and a host of its own for tracked links. */
import { Stack, Switch } from '@mantine/core'
import { useState } from 'react'
import type { Domain, SetDomainTrackingDomainRequest } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { bindChecked } from '../../parts/form.tsx'
import { FormError } from '../../parts/form-error.tsx'
import { Section } from '../../parts/page.tsx'

interface SettingProps {
  readonly domain: Domain
}

export const DomainSettings = ({ domain }: SettingProps) => (
  <Section title="Settings">
    <InboundSetting domain={domain} />
    <TrackingSetting domain={domain} />
  </Section>
)

function InboundSetting({ domain }: SettingProps) {
  const change = useChange((inbound_enabled: boolean) => api.domains.update(domain.id, { inbound_enabled }), 'domains')
  const reason = useAllowed('developer')
  return (
    <Stack gap="xs" maw={720}>
      <Switch
        label="Receive mail"
        description={`Mail to ${domain.domain} arrives here. This shows an MX record: mailboxes that the domain has elsewhere would get no more mail.`}
        {...bindChecked(domain.inbound_enabled, change.mutate)}
        disabled={reason !== undefined || change.isPending}
      />
      <FormError error={change.error} />
    </Stack>
  )
}

function TrackingSetting({ domain }: SettingProps) {
  const reason = useAllowed('developer')
  const [dialog, setDialog] = useState<'host' | 'remove'>()
  const close = () => setDialog(undefined)
  const current = domain.tracking_domain ?? null
  return (
    <Stack gap="xs" maw={720}>
      <Switch
        label="Own host for tracked links"
        description={
          current === null
            ? 'Tracked links lead through a host of yours, not of Tassis.'
            : `Links in tracked mail lead through ${current}${domain.tracking_domain_verified ? '' : ' once its record above is verified'}.`
        }
        checked={current !== null}
        disabled={reason !== undefined}
        onChange={() => setDialog(current === null ? 'host' : 'remove')}
      />
      {dialog === 'host' && (
        <ConfirmDialog
          title="Own host for tracked links"
          confirm="Use this host"
          fields={[
            {
              name: 'tracking_domain',
              label: 'Host',
              kind: 'code',
              hint: 'Any subdomain of yours that has no other records.',
              isRequired: true,
            },
          ]}
          initial={{ tracking_domain: `links.${domain.domain}` }}
          refreshes={['domains']}
          run={(body: SetDomainTrackingDomainRequest) => api.domains.setTrackingDomain(domain.id, body)}
          onClose={close}
        />
      )}
      {dialog === 'remove' && (
        <ConfirmDialog
          title={`Stop using ${current ?? 'the host'}?`}
          confirm="Stop using it"
          isDangerous
          refreshes={['domains']}
          run={() => api.domains.deleteTrackingDomain(domain.id)}
          onClose={close}
        >
          Future links use the host of Tassis. Links in older mail still need the CNAME record.
        </ConfirmDialog>
      )}
    </Stack>
  )
}
