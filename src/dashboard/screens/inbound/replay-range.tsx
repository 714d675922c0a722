/** @module Replays all mail of a route from a time on: after its receiver was broken. */
import { Text } from '@mantine/core'
import type { InboundRoute } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { DialogButton } from '../../parts/dialog.tsx'
import { ReplayDialog } from '../../parts/replay-dialog.tsx'
import { isDeactivated } from './format.ts'

/** Why nothing can be replayed; undefined: it can. */
const findObstacle = (route: InboundRoute): string | undefined =>
  route.webhook_url === null
    ? 'The route has no URL.'
    : !route.is_active || isDeactivated(route)
      ? 'Nothing is posted to its URL now.'
      : undefined

export const ReplayRange = ({ route }: { readonly route: InboundRoute }) => (
  <DialogButton label="Send a range again" variant="default" needs="developer" reason={findObstacle(route)}>
    {(close) => (
      <ReplayDialog
        title="Send mail to the URL again"
        noun="message"
        undelivered={{ label: 'Only mail that was not accepted' }}
        count={(range) => read.inboundRoutes.countReplay(route.id, { ...range })}
        refreshes={[['inboundRoutes', 'listDeliveries', route.id]]}
        run={(range) => api.inboundRoutes.replay(route.id, range)}
        onClose={close}
      >
        <Text size="sm">
          The messages of this route in that time are posted again, at most 10,000 at once. Your receiver should
          recognise those that it has by inbound_email_id.
        </Text>
      </ReplayDialog>
    )}
  </DialogButton>
)
