/** @module /v1/operator/certificates: those that clients of the service see. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { audit, showView, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { conflict } from '#platform/errors.ts'
import { dataBody, isoTimeOrNull } from '#platform/http/envelope.ts'
import { DataBody, Nullable, NullablePart, StringEnum, Text, TextOrNull, Timestamp } from '#platform/http/schemas.ts'
import { CERTIFICATE_USES, type CertificateState, certificateStates } from './states.ts'
import { resetOrderDelays } from './store.ts'

const Certificate = Type.Object({
  host: Text('Name of the host.'),
  use: StringEnum(CERTIFICATE_USES, { description: 'Who sees it: clients of the API, of tracked links, or of SMTP.' }),
  source: StringEnum(['acme', 'file', 'none'], {
    description: '`acme`: a certificate authority; `file`: TASSIS_TLS_CERT_FILE; `none`: self-signed.',
  }),
  not_after: Nullable(Timestamp(), { description: 'Its end; null: there is none but a self-signed one.' }),
  mismatch: NullablePart('Set if it is not for the host.', {
    problem: Text('What is wrong.'),
    fix: Text('What helps.'),
  }),
  last_error: TextOrNull('Why the last order failed; null: it did not.'),
  next_attempt_at: Nullable(Timestamp(), { description: 'When it is ordered again; null: no order has failed.' }),
})

const toWire = ({ notAfter, mismatch, lastError, nextAttemptAt, ...state }: CertificateState) =>
  ({
    host: state.host,
    use: state.use,
    source: state.source,
    not_after: isoTimeOrNull(notAfter ?? null),
    mismatch: mismatch ?? null,
    last_error: lastError ?? null,
    next_attempt_at: isoTimeOrNull(nextAttemptAt ?? null),
  }) satisfies Static<typeof Certificate>

export const certificateRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/certificates' })
    .use(authenticated)
    .get(
      '/',
      showView(app, 'certificates', () => certificateStates(app).map(toWire)),
      {
        response: DataBody(Type.Array(Certificate)),
        detail: operatorRoute('List the certificates', 'One for each host and use.'),
      },
    )
    .post(
      '/retry',
      async ({ actor }) => {
        if (!app.config.acmeTermsAgreed)
          throw conflict(
            'certificates_not_ordered',
            'No certificates are ordered; set TASSIS_ACME_TERMS_AGREED=true (docs/certificates.md).',
          )
        const failed = certificateStates(app).filter(({ lastError }) => lastError !== undefined)
        const hosts = [...new Set(failed.map(({ host }) => host))]
        resetOrderDelays(app.config.dataDir, app.replica)
        app.certificatesDue.emit()
        if (hosts.length > 0)
          await app.commit.writeFromReserve((tx) =>
            audit(app, tx, toServiceActor(actor), { action: 'operator.certificates_retried', metadata: { hosts } }),
          )
        return dataBody({ hosts })
      },
      {
        response: DataBody(
          Type.Object({ hosts: Type.Array(Type.String(), { description: 'Those whose order had failed.' }) }),
        ),
        detail: operatorRoute('Order failed certificates now', 'After their cause was mended.', {
          409: ['certificates_not_ordered', 'The service orders no certificates.'],
        }),
      },
    )
