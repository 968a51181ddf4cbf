// Reads one signed request as JSON from standard input, and says what the vendor's own library makes of it.
import { readFileSync } from 'node:fs';

const { kind, secret, headers, body: encoded } = JSON.parse(readFileSync(0, 'utf8'));
const raw = Buffer.from(encoded, 'base64');

const judges = {
  async line() {
    const { validateSignature } = await import('@line/bot-sdk');
    return validateSignature(raw, secret, headers['x-line-signature']);
  },
  async sendgrid() {
    const { EventWebhook } = (await import('@sendgrid/eventwebhook')).default;
    const judge = new EventWebhook();
    const prefix = 'x-twilio-email-event-webhook';
    const key = judge.convertPublicKeyToECDSA(secret);
    // It joins the time with text, and so fits what is UTF-8 alone.
    return judge.verifySignature(key, raw.toString('utf8'), headers[`${prefix}-signature`], headers[`${prefix}-timestamp`]);
  },
};
console.log(JSON.stringify({ good: Boolean(await judges[kind]()) }));
