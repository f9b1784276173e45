"""Messages between server and client, as the arrays and scalars that Flower carries.

Others use ``messages`` (Broadcast down, Update up), ``clients`` (Member, Hello and Question: who a client is, and what
else it is asked), ``codec`` (to arrays and scalars and back),
``bundle`` (several messages in one), ``message_size`` (how long Flower's messages are), ``points`` (questions at many
points), ``checked`` (a site tries its objective out), ``snapshots`` (parameters in place for a client that joins late),
``start`` (where a client begins), ``arrays`` (numbers as bytes, checked before they are read), ``records`` (the arrays
of somebody's model), ``pieces`` (a client's message on its way) and ``fields`` (changed: a message with some fields
changed; what a field says of itself).
"""
