/** @module The switches of a domain: inbound mail, and a host of its own for tracked links. */
import { Button, Group, Modal, Stack, Switch, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Domain } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useStore } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { bindChecked, bindText, CODE_INPUT, Form, FormError, findFieldError } from '../../parts/form.tsx'
import { Section } from '../../parts/page.tsx'

interface SettingProps {
  readonly domain: Domain
}

const useDomainChange = (id: string) =>
  useStore(
    (change: () => PromiseLike<{ readonly data: Domain }>) => change(),
    () => read.domains.get(id),
    ['domains', 'list'],
    ['domains', 'getDns', id],
  )

export const DomainSettings = ({ domain }: SettingProps) => (
  <Section title="Settings" size="h3" gap="lg">
    <InboundSetting domain={domain} />
    <TrackingSetting domain={domain} />
  </Section>
)

function InboundSetting({ domain }: SettingProps) {
  const change = useDomainChange(domain.id)
  const reason = useAllowed('developer')
  return (
    <Stack gap="xs" maw={720}>
      <Switch
        label="Receive mail"
        description={`Mail to addresses at ${domain.domain} is accepted here. Turning this on shows the MX record that leads it here; publish that only if no mailboxes of this domain are elsewhere, because they would get no more mail.`}
        {...bindChecked(domain.inbound_enabled, (checked) =>
          change.mutate(() => api.domains.update(domain.id, { inbound_enabled: checked })),
        )}
        disabled={reason !== undefined || change.isPending}
      />
      <FormError error={change.error} />
    </Stack>
  )
}

function TrackingSetting({ domain }: SettingProps) {
  const change = useDomainChange(domain.id)
  const reason = useAllowed('developer')
  const [isTyping, setIsTyping] = useState(false)
  const [isRemoving, setIsRemoving] = useState(false)
  const current = domain.tracking_domain ?? null
  const toggle = () => {
    change.reset()
    if (current === null) setIsTyping(!isTyping)
    else setIsRemoving(true)
  }
  return (
    <Stack gap="xs" maw={720}>
      <Switch
        label="Own host for tracked links"
        description={
          current === null
            ? 'Links in tracked mail then lead through a host of yours instead of the host of this service.'
            : `Links in tracked mail lead through ${current}${domain.tracking_domain_verified ? '' : ' once its record above is verified'}.`
        }
        checked={current !== null || isTyping}
        disabled={reason !== undefined || change.isPending}
        onChange={toggle}
      />
      {current === null && isTyping && (
        <TrackingForm domain={domain} change={change} onDone={() => setIsTyping(false)} />
      )}
      <Modal
        opened={isRemoving}
        onClose={() => setIsRemoving(false)}
        title={`Stop using ${current ?? 'the host'}?`}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <Stack>
          <Text>
            Links in future mail use the host of this service. Links in older mail still need the CNAME record: leave it
            as long as they should work.
          </Text>
          <FormError error={change.error} />
          <Group>
            <Button
              color="red"
              loading={change.isPending}
              onClick={() =>
                change.mutate(() => api.domains.deleteTrackingDomain(domain.id), {
                  onSuccess: () => setIsRemoving(false),
                })
              }
            >
              Stop using it
            </Button>
            <Button variant="default" onClick={() => setIsRemoving(false)}>
              Keep it
            </Button>
          </Group>
        </Stack>
      </Modal>
    </Stack>
  )
}

interface TrackingFormProps extends SettingProps {
  readonly change: ReturnType<typeof useDomainChange>
  onDone(): void
}

function TrackingForm({ domain, change, onDone }: TrackingFormProps) {
  const [host, setHost] = useState(`links.${domain.domain}`)
  const submit = () => {
    const body = { tracking_domain: host.trim() }
    change.mutate(() => api.domains.setTrackingDomain(domain.id, body), { onSuccess: onDone })
  }
  return (
    <Form onSubmit={submit} gap="xs" align="flex-start">
      <TextInput
        w="100%"
        label="Host"
        description="Any subdomain of yours that has no other records."
        {...bindText(host, setHost)}
        error={findFieldError(change.error, 'tracking_domain')}
        {...CODE_INPUT}
        required
      />
      <FormError error={change.error} fields={['tracking_domain']} />
      <Button type="submit" loading={change.isPending}>
        Use this host
      </Button>
    </Form>
  )
}
